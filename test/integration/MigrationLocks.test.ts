/** A backup holds its locks for as long as it runs, and a statement that waits for them blocks later ones. */
import { assert, layer } from "@effect/vitest"
import { Deferred, Effect, Fiber, Layer } from "effect"
import { SqlRunnerStorage } from "effect/cluster"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import * as Migrations from "../../src/services/store/schema/Migrations.ts"
import * as Database from "../kit/Database.ts"

const migrate = Effect.scoped(Layer.build(Database.layerMigrations))

/** An extension that changes the table of tasks. */
const extension = { name: "locked", migrations: [["ALTER TABLE tasks ADD COLUMN of_the_extension integer"]] }

/** Runs an effect with a function that ends the backup. */
const duringBackup = <A, E, R>(use: (end: Effect.Effect<void>) => Effect.Effect<A, E, R>) =>
  Effect.gen(function*() {
    const sql = yield* SqlClient.SqlClient
    const locked = yield* Deferred.make<void>()
    const ended = yield* Deferred.make<void>()
    const backup = yield* sql`LOCK TABLE tasks, task_events, async_task_service_versions IN ACCESS SHARE MODE`.pipe(
      Effect.andThen(Deferred.succeed(locked, undefined)),
      Effect.andThen(Deferred.await(ended)),
      sql.withTransaction,
      Effect.forkChild
    )
    yield* Deferred.await(locked)
    const result = yield* use(Effect.asVoid(Deferred.succeed(ended, undefined)))
    yield* Deferred.succeed(ended, undefined)
    yield* Fiber.join(backup)
    return result
  })

/** Longer than any of these waits, so that it ends none that a busy machine prolongs: what waits for the backup waits for ever. */
const deadline = "30 seconds"

layer(Database.layer)("a current schema during a backup", (it) => {
  it.effect("a migration lets other sessions pass while it waits", () =>
    TestClock.withLive(Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      yield* duringBackup(Effect.fnUntraced(function*(end) {
        const migration = yield* Effect.forkChild(Effect.scoped(Layer.build(Migrations.layer([extension]))))
        yield* Effect.repeat(
          sql`SELECT FROM pg_locks JOIN pg_database ON oid = database
            WHERE datname = current_database() AND relation = 'tasks'::regclass AND NOT granted`,
          { until: (rows) => rows.length > 0 }
        )
        yield* Effect.timeout(sql`SELECT FROM tasks`, deadline)
        assert.isDefined(Migrations.behind(yield* Migrations.current(sql), [extension]))
        yield* end
        yield* Fiber.join(migration)
      }))
      assert.isUndefined(Migrations.behind(yield* Migrations.current(sql), [extension]))
    })))

  it.effect("a node starts without a wait", () =>
    TestClock.withLive(duringBackup(() => Effect.timeout(migrate, deadline))))
})

layer(Database.layer)("Effect Cluster", (it) => {
  it.effect("has one migration, which a node skips when it finds the tables", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      yield* TestClock.withLive(Layer.build(SqlRunnerStorage.layerMigrations({})))
      assert.lengthOf(yield* sql`SELECT FROM cluster_runner_migrations`, 1)
    }))
})
