import { PgClient } from "@effect/sql-pg"
import { assert, layer } from "@effect/vitest"
import { Deferred, Effect, Fiber, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import * as Migrations from "../../src/services/store/Migrations.ts"
import * as Database from "../kit/Database.ts"

const insertTask = Effect.flatMap(SqlClient.SqlClient, (sql) =>
  sql`
    INSERT INTO tasks (uuid, sub, run_id, max_execution_time, created_at, deadline_at, token_id)
    VALUES (gen_random_uuid(), 'ann', gen_random_uuid(), 60, now(), now(), 'token')`)

/** A migration as by another node: on a client of its own, which waits for a lock without a timeout. */
const migrate = Effect.flatMap(
  Database.DatabaseUrl,
  (url) => Layer.build(Layer.provide(Layer.fresh(Migrations.layer), PgClient.layer({ url, maxConnections: 2 })))
).pipe(
  Effect.scoped
)

const indexes = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  const rows = yield* sql<{ readonly name: string; readonly valid: boolean }>`
    SELECT relname AS name, indisvalid AS valid FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid
    WHERE relname IN ('tasks_list', 'tasks_ended', 'tasks_token', 'tasks_by_creation', 'tasks_of_user', 'tasks_created') ORDER BY relname`
  return rows.map(({ name, valid }) => valid ? name : `invalid ${name}`)
})

const current = ["tasks_by_creation", "tasks_ended", "tasks_list", "tasks_token"]

/** Waits until a statement that begins with `text` waits for a lock. */
const untilBlocked = (text: string) =>
  Effect.flatMap(SqlClient.SqlClient, (sql) =>
    Effect.repeat(
      sql`SELECT FROM pg_stat_activity
        WHERE datname = current_database() AND query LIKE ${`${text}%`} AND wait_event_type = 'Lock'`,
      { until: (rows) => rows.length > 0 }
    ))

layer(Database.layer)("the indexes of a large table", (it) => {
  it.effect("are built while transactions write, none of which waits for a build", () =>
    TestClock.withLive(Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      yield* sql`DROP INDEX tasks_list, tasks_ended, tasks_token, tasks_by_creation`
      yield* sql`CREATE INDEX tasks_of_user ON tasks (sub)`
      yield* sql`CREATE INDEX tasks_created ON tasks (created_at)`
      const written = yield* Deferred.make<void>()
      // A build waits for this transaction to end. If it held a lock meanwhile, the inserts below would wait too.
      const older = yield* Effect.forkChild(
        sql.withTransaction(Effect.andThen(insertTask, Deferred.await(written)))
      )
      const migration = yield* Effect.forkChild(migrate)
      yield* untilBlocked("CREATE INDEX")
      yield* Effect.replicateEffect(Effect.timeout(insertTask, "1 second"), 20)
      assert.deepStrictEqual(yield* indexes, ["tasks_created", "invalid tasks_list", "tasks_of_user"])
      yield* Deferred.succeed(written, undefined)
      yield* Fiber.join(older)
      yield* Fiber.join(migration)
      assert.deepStrictEqual(yield* indexes, current)
    })))

  it.effect("are built once by nodes that start together, and replace what a build left that was cut off", () =>
    TestClock.withLive(Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      yield* sql`DROP INDEX tasks_list, tasks_ended, tasks_token, tasks_by_creation`
      yield* insertTask
      yield* Effect.ignore(sql`CREATE UNIQUE INDEX CONCURRENTLY tasks_list ON tasks (sub)`)
      assert.deepStrictEqual(yield* indexes, ["invalid tasks_list"])
      yield* Effect.all(Array.from({ length: 4 }, () => migrate), { concurrency: "unbounded", discard: true })
      assert.deepStrictEqual(yield* indexes, current)
    })))
})
