import { assert, layer } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { SqlRunnerStorage } from "effect/cluster"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import * as Migrations from "../../src/services/store/schema/Migrations.ts"
import { labelOf, statements } from "../../src/services/store/tasks/ListStatement.ts"
import { columns } from "../../src/services/store/tasks/TaskColumns.ts"
import * as Database from "../kit/Database.ts"

/** Repeated until all pages are marked as visible: another snapshot of the moment, as of autovacuum, prevents it, and then index-only scans. */
const vacuum = Effect.fnUntraced(function*(table: string) {
  const sql = yield* SqlClient.SqlClient
  for (let isVisible = false; !isVisible;) {
    yield* sql.unsafe(`VACUUM (ANALYZE) ${table}`)
    const [row] = yield* sql<{ readonly isVisible: boolean }>`
      SELECT relallvisible >= relpages AS "isVisible" FROM pg_class WHERE oid = ${table}::regclass`
    isVisible = row?.isVisible === true
  }
})

const insertTasks = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  yield* sql`
    INSERT INTO tasks (uuid, sub, status, completed_at, run_id, max_execution_time, created_at, deadline_at, token_id, assistant_id)
    SELECT gen_random_uuid(), 'user-' || n % 5, status, CASE status WHEN 'completed' THEN now() END, gen_random_uuid(), 60, now(),
      now(), 'token', 1
    FROM (SELECT n, CASE n % 100 WHEN 1 THEN 'pending' ELSE 'completed' END AS status FROM generate_series(1, 5000) AS n) AS drawn`
  yield* vacuum("tasks")
})

layer(Database.layer)("the schema", (it) => {
  it.effect("has the columns that the service knows of a task, with their types", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const found = yield* sql<{ readonly column: string }>`
        SELECT attname || ' ' || replace(format_type(atttypid, NULL), 'timestamp with time zone', 'timestamptz') AS column
        FROM pg_attribute WHERE attrelid = 'tasks'::regclass AND attnum > 0 ORDER BY attnum`
      const known = Object.values(columns).map(({ name, type }) => `${name} ${type}`)
      assert.deepStrictEqual(found.map(({ column }) => column).toSorted(), known.toSorted())
    }))

  it.effect("is at the latest migration, and another migration changes nothing", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      assert.strictEqual(Migrations.coreVersion(yield* Migrations.current(sql)), Migrations.latest)
      yield* Layer.build(Database.layerMigrations)
      assert.strictEqual(Migrations.coreVersion(yield* Migrations.current(sql)), Migrations.latest)
    }))

  it.effect("has a primary key for each table, so that all can be published for logical replication", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      yield* TestClock.withLive(Layer.build(SqlRunnerStorage.layerMigrations({})))
      const tables = yield* sql<{ readonly name: string; readonly hasKey: boolean }>`
        SELECT oid::regclass::text AS name,
          EXISTS (SELECT FROM pg_index WHERE indrelid = pg_class.oid AND indisprimary) AS "hasKey"
        FROM pg_class WHERE relkind IN ('r', 'p') AND relpersistence <> 't'
          AND relnamespace::regnamespace::text <> ALL ('{pg_catalog,information_schema}')`
      assert.includeMembers(tables.map(({ name }) => name), ["tasks", "usage_outbox", "schedules", "cluster_runners"])
      assert.deepStrictEqual(tables.filter(({ hasKey }) => !hasKey), [])
      yield* sql`CREATE PUBLICATION everything FOR ALL TABLES`
      // Postgres refuses the statement, whether or not it finds rows.
      for (const { name } of tables) yield* sql.unsafe(`DELETE FROM ${name} WHERE false`)
      yield* sql`DROP PUBLICATION everything`
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

  it.effect("counts and pages a list by index-only scans, and by that of the metadata", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      yield* insertTasks
      yield* sql.unsafe(`
        INSERT INTO task_labels
        SELECT ${
        labelOf("sub", "key", "value")
      }, created_at, uuid FROM tasks, (VALUES ('env', 'prod')) AS pair (key, value)`)
      yield* vacuum("task_labels")
      const { active, all, labeled } = statements
      const bound: Readonly<Record<string, string>> = {
        sub: "user-1",
        metadata: `{"env": "prod"}`,
        assistantId: "7",
        from: "0",
        to: "1e15",
        limit: "25",
        offset: "0",
        at: "1e15",
        uuid: "00000000-0000-0000-0000-000000000000"
      }
      const byLabel = /Index Only Scan (Backward )?using task_labels_pkey/
      for (
        const [statement, node, count, statuses] of [
          [all.first, /Index Only Scan using tasks_list/, 1, "{failed}"],
          [all.marks, /Index Only Scan using tasks_list/, 3, "{failed}"],
          [all.newer, /Index Only Scan using tasks_list/, 1, "{failed}"],
          [all.page, /Index Only Scan using tasks_list/, 1, "{failed}"],
          [active.first, /using tasks_list/, 0, "{pending}"],
          [labeled.first, byLabel, 3, "{failed}"],
          [labeled.marks, byLabel, 7, "{failed}"],
          [labeled.newer, byLabel, 3, "{failed}"],
          [labeled.page, byLabel, 3, "{failed}"]
        ] as const
      ) {
        const values = statement.names.map((name) => name === "statuses" ? statuses : bound[name] ?? "")
        const lines = yield* planOf(statement.text, values)
        assert.strictEqual(lines.filter((line) => node.test(line)).length, count, lines.join("\n"))
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
          TestClock.withLive(Layer.build(Database.layerMigrations)), {
          concurrency: "unbounded",
          discard: true
        })
        assert.strictEqual(Migrations.coreVersion(yield* Migrations.current(sql)), Migrations.latest)
      }))
  }
)
