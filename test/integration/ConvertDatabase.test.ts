/** A database that was made before the first release becomes one of today, and its tasks go on. */
import { PgClient } from "@effect/sql-pg"
import { assert, it } from "@effect/vitest"
import { Duration, Effect, Layer, Option, type Scope } from "effect"
import { SecureRandom } from "effect/crypto"
import { Reactivity } from "effect/reactivity"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import * as fs from "node:fs"
import { inject } from "vitest"
import { TaskId } from "../../src/domain/Task.ts"
import { now } from "../../src/domain/Timestamp.ts"
import { Changes } from "../../src/services/signals/Changes.ts"
import * as Migrations from "../../src/services/store/schema/Migrations.ts"
import { StopOutbox } from "../../src/services/store/tasks/StopOutbox.ts"
import { TaskReads } from "../../src/services/store/tasks/TaskReads.ts"
import * as TaskStoreSql from "../../src/services/store/tasks/TaskStoreSql.ts"
import { TaskWrites } from "../../src/services/store/tasks/TaskWrites.ts"
import { WebhookStore } from "../../src/services/store/webhooks/WebhookStore.ts"
import { layerMigrations, makeDatabase } from "../kit/Database.ts"
import { eventOf } from "../kit/StoredTasks.ts"
import { unlimited } from "../kit/StoredWebhooks.ts"

const schema18 = fs.readFileSync(new URL("schema-18.sql", import.meta.url), "utf8")

/** Runs any number of statements as one. */
const runAll = (sql: SqlClient.SqlClient, text: string) =>
  sql.unsafe(`DO $all$ BEGIN EXECUTE $text$${text}$text$; END $all$`)

const ids = ["pending", "processing", "interrupted", "completed", "large", "openai"] as const
const idOf = (name: typeof ids[number]) => TaskId.make(`019ac5d2-7f3e-7c41-9b1a-00000000000${ids.indexOf(name)}`)
const runIdOf = (name: typeof ids[number]) => idOf(name).replace("019ac5d2", "119ac5d2")

/** Creates a task by the function of that time. The escape in the request is one that JSON in Postgres refuses. */
const create = (name: typeof ids[number], length = 0) => `
  PERFORM create_task('${idOf(name)}', 'user-${name}', '${runIdOf(name)}', 'https://client.example/${name}', 60,
    now(), now() + interval '1 minute', now() + interval '30 seconds', 'token', now(),
    '{"assistant_id":${
  ids.indexOf(name) + 1
},"input":[{"text":"\\u0000' || repeat('x', ${length}) || '"}]}', 'sealed', 'secret',
    5, 'key-${name}', 'fingerprint', now() + interval '1 day', '{"env":"prod"}'::jsonb,
    ${name === "openai" ? "'openai'" : "NULL"});`

const commitOf = (name: typeof ids[number], type: string, target: string, turn: string, calls: string) => `
  PERFORM commit_task('${idOf(name)}', '${runIdOf(name)}', 'event-${type}', now(), '${type}', '{pending,processing}',
    '${target}', ${target === "completed"}, true, ${target !== "processing"}, NULL, NULL, ${calls}, ${turn}, NULL,
    NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 'Accepted', '{pending}', 'processing');`

const calls = `'[{"id":"c1","name":"look","arguments":{}}]'`

const fill = `DO $fill$ BEGIN
  ${ids.map((name) => create(name, name === "large" ? 262_144 : 0)).join("")}
  ${commitOf("processing", "Progressed", "processing", `'{"a":1}'`, "NULL")}
  ${commitOf("interrupted", "Interrupted", "interrupted", `'{"a":2}'`, calls)}
  ${commitOf("completed", "Completed", "completed", `'{"a":3}'`, "NULL")}
  ${commitOf("large", "Completed", "completed", `'{"a":4}'`, "NULL")}
  INSERT INTO core_stops VALUES ('${runIdOf("completed")}', '${idOf("completed")}', 'canceled', 0, now());
  INSERT INTO facade_legs VALUES ('${idOf("openai")}', 0, '{"model":"m"}', NULL, now());
  INSERT INTO token_revocations (token_id) VALUES ('another');
  INSERT INTO history VALUES ('created', now(), 6);
END $fill$`

/** A new database with the schema of that time. */
const openOld = Effect.gen(function*() {
  const url = yield* makeDatabase(inject("postgresUrl"))
  const sql = yield* PgClient.make({ url, maxConnections: 4 })
  yield* runAll(sql, schema18)
  return sql
})

const openNew = Effect.flatMap(makeDatabase(inject("postgresUrl")), (url) => PgClient.make({ url, maxConnections: 4 }))

const migrate = (sql: SqlClient.SqlClient) =>
  Effect.provideService(Effect.scoped(Layer.build(layerMigrations)), SqlClient.SqlClient, sql)

const namesOf = (sql: SqlClient.SqlClient, statement: string) =>
  Effect.map(sql.unsafe<{ readonly line: string }>(statement), (rows) => rows.map(({ line }) => line).toSorted())

/** Everything in the catalog but the order of columns. */
const catalogOf = (sql: SqlClient.SqlClient) =>
  Effect.all({
    columns: namesOf(
      sql,
      `SELECT concat_ws(' ', relname, attname, format_type(atttypid, atttypmod), attnotnull, pg_get_expr(adbin, adrelid)) AS line
      FROM pg_class JOIN pg_attribute ON attrelid = pg_class.oid LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum
      WHERE relnamespace = 'public'::regnamespace AND relkind = 'r' AND attnum > 0 AND NOT attisdropped`
    ),
    constraints: namesOf(
      sql,
      `SELECT concat_ws(' ', conrelid::regclass, conname, pg_get_constraintdef(oid)) AS line FROM pg_constraint
      WHERE connamespace = 'public'::regnamespace`
    ),
    indexes: namesOf(
      sql,
      `SELECT concat_ws(' ', pg_get_indexdef(indexrelid), indisvalid) AS line FROM pg_index JOIN pg_class ON oid = indexrelid
      WHERE relnamespace = 'public'::regnamespace`
    ),
    options: namesOf(
      sql,
      `SELECT concat_ws(' ', relname, reloptions) AS line FROM pg_class WHERE relnamespace = 'public'::regnamespace`
    ),
    functions: namesOf(
      sql,
      `SELECT pg_get_functiondef(oid) AS line FROM pg_proc WHERE pronamespace = 'public'::regnamespace`
    ),
    versions: namesOf(sql, `SELECT concat_ws(' ', owner, version) AS line FROM ${Migrations.ledger}`)
  })

const onDatabase = <A, E>(run: Effect.Effect<A, E, Reactivity.Reactivity | SecureRandom.SecureRandom | Scope.Scope>) =>
  TestClock.withLive(Effect.scoped(run)).pipe(Effect.provide([Reactivity.layer, SecureRandom.layerWebCrypto]))

it.effect("a converted database has the catalog of a new one, also when nodes start together or a build was cut off", () =>
  onDatabase(Effect.gen(function*() {
    const [old, fresh] = [yield* openOld, yield* openNew]
    yield* old.unsafe(fill)
    yield* old`DROP INDEX tasks_list, tasks_token`
    yield* old`CREATE INDEX tasks_of_user ON tasks (sub)`
    yield* Effect.ignore(old`CREATE UNIQUE INDEX CONCURRENTLY tasks_list ON tasks (token_id)`)
    yield* Effect.all([migrate(old), migrate(old), migrate(old), migrate(fresh)], { concurrency: "unbounded" })
    // The tables of extensions, which may be absent.
    for (const sql of [old, fresh]) yield* sql`DROP TABLE IF EXISTS facade_legs, history`
    assert.deepStrictEqual(yield* catalogOf(old), yield* catalogOf(fresh))
    yield* migrate(old)
  })))

it.effect("tasks, their webhooks and keys outlive the conversion, and the tasks go on", () =>
  onDatabase(Effect.gen(function*() {
    const sql = yield* openOld
    yield* sql.unsafe(fill)
    const tables = [
      "task_requests",
      "task_turns",
      "task_events",
      "webhook_deliveries",
      "idempotency_keys",
      "facade_legs"
    ]
    const added: Readonly<Record<string, string>> = {
      webhook_deliveries: "sub,is_proven",
      facade_legs: "is_stored,usage"
    }
    /** Without the columns that later migrations add. */
    const rowsOf = (table: string) =>
      namesOf(sql, `SELECT (to_jsonb(${table}) - '{${added[table] ?? ""}}'::text[])::text AS line FROM ${table}`)
    const before = yield* Effect.forEach(tables, rowsOf)
    yield* migrate(sql)
    assert.deepStrictEqual(yield* Effect.forEach(tables, rowsOf), before)
    assert.deepStrictEqual(
      yield* namesOf(sql, "SELECT concat_ws(' ', right(uuid::text, 1), assistant_id) AS line FROM tasks"),
      ["0 1", "1 2", "2 3", "3 4", "4", "5 6"]
    )

    const layer = TaskStoreSql.layer.pipe(
      Layer.provideMerge(Changes.layer),
      Layer.provide(Layer.succeed(SqlClient.SqlClient, sql))
    )
    yield* Effect.gen(function*() {
      const writes = yield* TaskWrites
      const reads = yield* TaskReads
      const at = yield* now
      const done = yield* eventOf("Completed")
      const list = { sub: "user-pending", statuses: [], page: 1, perPage: 25, metadata: { env: "prod" } }
      assert.deepStrictEqual((yield* reads.list(list)).tasks.map(({ uuid }) => uuid), [idOf("pending")])
      assert.deepStrictEqual((yield* reads.metadata(list.sub, [idOf("pending")])).get(idOf("pending")), list.metadata)
      for (const name of ["pending", "processing", "openai"] as const) {
        const { status } = Option.getOrThrow(yield* reads.get(idOf(name)))
        assert.strictEqual(status, name === "processing" ? "processing" : "pending")
        if (status === "pending") {
          assert.strictEqual((yield* writes.commit(idOf(name), yield* eventOf("Accepted"), at))._tag, "Applied")
        }
        assert.strictEqual((yield* writes.commit(idOf(name), done, at))._tag, "Applied")
      }
      assert.strictEqual((yield* writes.commit(idOf("completed"), done, at))._tag, "Superseded")
      const resumed = yield* writes.commit(idOf("interrupted"), yield* eventOf("ToolResultsSubmitted"), at)
      assert.strictEqual(resumed._tag, "Applied")
      assert.isTrue(Option.isSome(yield* reads.pendingRun(idOf("interrupted"))))
      const [first] = yield* (yield* StopOutbox).claim(at, Duration.seconds(1), 10)
      assert.strictEqual(first?.taskId, idOf("completed"))
      const claim = { at, lostBefore: at, limit: 10, leases: [Duration.seconds(1)], permits: unlimited }
      assert.lengthOf((yield* (yield* WebhookStore).claim(claim)).deliveries, 6)
    }).pipe(Effect.provide(layer))
  })))

it.effect("a database before its last migration is left as it is", () =>
  onDatabase(Effect.gen(function*() {
    const sql = yield* openOld
    yield* sql`DELETE FROM async_task_service_migrations WHERE migration_id = 18`
    const { message } = yield* Effect.flip(migrate(sql))
    assert.include(message, "it was made before the first release and is at migration 17")
    assert.isEmpty(yield* sql`SELECT FROM pg_class WHERE relname = ${Migrations.ledger}`)
    assert.lengthOf(yield* sql`SELECT FROM pg_proc WHERE proname = 'create_task'`, 3)
  })))
