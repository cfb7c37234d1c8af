import { assert, layer } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import { activeStatuses, TaskStatus } from "../../src/domain/Task.ts"
import { listAll, listByStatus } from "../../src/services/store/ListStatement.ts"
import * as Migrations from "../../src/services/store/Migrations.ts"
import * as Database from "../kit/Database.ts"

const quoted = (definition: string | undefined) =>
  [...(definition ?? "").matchAll(/'([a-z]+)'/g)].map(([, word]) => word).toSorted()

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

  it.effect("counts and pages a list by index-only scans, with and without a filter", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      yield* sql`
        INSERT INTO tasks (uuid, sub, run_id, max_execution_time, created_at, deadline_at, token_id)
        SELECT gen_random_uuid(), 'user-' || n % 50, gen_random_uuid(), 60, now(), now(), 'token'
        FROM generate_series(1, 5000) AS n`
      yield* sql`VACUUM (ANALYZE) tasks`
      for (const [statement, ...filter] of [[listAll], [listByStatus, "{failed}"]] as const) {
        // Not EXPLAIN (GENERIC_PLAN), which is new in Postgres 16.
        const values = ["user-1", 25, 0, ...filter].map((value) => `'${value}'`).join(", ")
        const plan = yield* sql.withTransaction(Effect.gen(function*() {
          yield* sql`SET LOCAL plan_cache_mode = force_generic_plan`
          yield* sql.unsafe(`PREPARE page AS ${statement.text}`)
          const lines = yield* sql.unsafe<object>(`EXPLAIN EXECUTE page(${values})`)
          yield* sql`DEALLOCATE page`
          return lines
        }))
        const lines = plan.flatMap((row) => Object.values(row).map(String))
        assert.strictEqual(lines.filter((line) => line.includes("Index Only Scan using tasks_list")).length, 2)
        assert.isFalse(lines.some((line) => line.includes("Seq Scan")))
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
