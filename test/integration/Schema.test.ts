import { assert, layer } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import { activeStatuses, TaskStatus } from "../../src/domain/Task.ts"
import { listAll, listByBoth, listByMetadata, listByStatus } from "../../src/services/store/ListStatement.ts"
import * as Migrations from "../../src/services/store/Migrations.ts"
import * as Database from "../kit/Database.ts"

const quoted = (definition: string | undefined) =>
  [...(definition ?? "").matchAll(/'([a-z]+)'/g)].map(([, word]) => word).toSorted()

const insertTasks = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  yield* sql`
    INSERT INTO tasks (uuid, sub, run_id, max_execution_time, created_at, deadline_at, token_id)
    SELECT gen_random_uuid(), 'user-' || n % 50, gen_random_uuid(), 60, now(), now(), 'token'
    FROM generate_series(1, 5000) AS n`
  yield* sql`VACUUM (ANALYZE) tasks`
})

layer(Database.layer)("the schema", (it) => {
  const constraint = Effect.fnUntraced(function*(name: string) {
    const sql = yield* SqlClient.SqlClient
    const [row] = yield* sql<{ readonly definition: string }>`
      SELECT pg_get_constraintdef(oid) AS definition FROM pg_constraint WHERE conname = ${name}`
    return quoted(row?.definition)
  })

  it.effect("has the statuses and active statuses of the domain in its constraints", () =>
    Effect.gen(function*() {
      assert.deepStrictEqual(yield* constraint("tasks_status"), [...TaskStatus.literals].toSorted())
      assert.deepStrictEqual(yield* constraint("tasks_completed_at"), [...activeStatuses].toSorted())
    }))

  it.effect("is at the latest migration, and another migration changes nothing", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      assert.strictEqual(yield* Migrations.current(sql), Migrations.latest)
      yield* Layer.build(Layer.fresh(Migrations.layer))
      assert.strictEqual(yield* Migrations.current(sql), Migrations.latest)
    }))

  /** The generic plan of a list, without EXPLAIN (GENERIC_PLAN), which is new in Postgres 16. */
  const planOf = Effect.fnUntraced(function*(statement: string, values: ReadonlyArray<string>) {
    const sql = yield* SqlClient.SqlClient
    const plan = yield* sql.withTransaction(Effect.gen(function*() {
      yield* sql`SET LOCAL plan_cache_mode = force_generic_plan`
      yield* sql.unsafe(`PREPARE page AS ${statement}`)
      const lines = yield* sql.unsafe<object>(`EXPLAIN EXECUTE page(${values.map((value) => `'${value}'`).join(", ")})`)
      yield* sql`DEALLOCATE page`
      return lines
    }))
    return plan.flatMap((row) => Object.values(row).map(String))
  })

  it.effect("counts and pages a list by index-only scans, and by the index of the metadata", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      yield* insertTasks
      yield* sql`
        INSERT INTO task_metadata
        SELECT uuid, jsonb_build_object(sub, jsonb_build_object('env', 'prod', 'order', uuid)) FROM tasks`
      yield* sql`VACUUM (ANALYZE) task_metadata`
      const byMetadata = `{"user-1": {"env": "prod"}}`
      for (
        const [statement, node, count, ...values] of [
          [listAll, "Index Only Scan using tasks_list", 2, "user-1", "25", "0"],
          [listByStatus, "Index Only Scan using tasks_list", 2, "user-1", "25", "0", "{failed}"],
          [listByMetadata, "Bitmap Index Scan on task_metadata_by_user", 1, byMetadata, "25", "0"],
          [listByBoth, "Bitmap Index Scan on task_metadata_by_user", 1, byMetadata, "25", "0", "{failed}"]
        ] as const
      ) {
        const lines = yield* planOf(statement.text, values)
        assert.strictEqual(lines.filter((line) => line.includes(node)).length, count, lines.join("\n"))
        assert.isFalse(lines.some((line) => line.includes("Seq Scan")), lines.join("\n"))
      }
    }))
})

layer(Database.layerLive(Layer.orDie(Layer.provideMerge(Database.layerClient, Database.layerUrl))))(
  "an empty database",
  (it) => {
    it.effect("is migrated once when several nodes start concurrently", () =>
      Effect.gen(function*() {
        const sql = yield* SqlClient.SqlClient
        yield* Effect.forEach(Array.from({ length: 6 }), () =>
          TestClock.withLive(Layer.build(Layer.fresh(Migrations.layer))), {
          concurrency: "unbounded",
          discard: true
        })
        assert.strictEqual(yield* Migrations.current(sql), Migrations.latest)
      }))
  }
)
