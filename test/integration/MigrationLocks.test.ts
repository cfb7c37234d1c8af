/** A backup holds its locks for as long as it runs, and a statement that waits for them blocks later ones. */
import { assert, layer } from "@effect/vitest"
import { Deferred, Effect, Fiber, Layer } from "effect"
import { SqlRunnerStorage } from "effect/cluster"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import * as Migrations from "../../src/services/store/Migrations.ts"
import * as Database from "../kit/Database.ts"

const migrate = Effect.scoped(Layer.build(Layer.fresh(Migrations.layer)))

/** Runs an effect with a function that ends the backup. */
const duringBackup = <A, E, R>(
  use: (end: Effect.Effect<void>) => Effect.Effect<A, E, R>,
  lock = "async_task_service_migrations IN ACCESS SHARE MODE"
) =>
  Effect.gen(function*() {
    const sql = yield* SqlClient.SqlClient
    const locked = yield* Deferred.make<void>()
    const ended = yield* Deferred.make<void>()
    const backup = yield* sql.unsafe(`LOCK TABLE ${lock}`).pipe(
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

layer(Database.layerLive(Layer.orDie(Layer.provideMerge(Database.layerClient, Database.layerUrl))))(
  "during a backup",
  (it) => {
    it.effect("a migration lets other sessions pass while it waits", () =>
      TestClock.withLive(Effect.gen(function*() {
        const sql = yield* SqlClient.SqlClient
        yield* sql`CREATE TABLE async_task_service_migrations (
          migration_id integer PRIMARY KEY, created_at timestamptz NOT NULL DEFAULT now(), name text NOT NULL
        )`
        yield* duringBackup(Effect.fnUntraced(function*(end) {
          const migration = yield* Effect.forkChild(migrate)
          yield* Effect.repeat(
            sql`SELECT FROM pg_locks WHERE relation = 'async_task_service_migrations'::regclass AND NOT granted`,
            { until: (rows) => rows.length > 0 }
          )
          yield* Effect.timeout(Migrations.current(sql), "2 seconds")
          yield* end
          yield* Fiber.join(migration)
        }))
        assert.strictEqual(yield* Migrations.current(sql), Migrations.latest)
      })))

    it.effect("a node starts without a wait when its schema is current", () =>
      TestClock.withLive(duringBackup(() => Effect.timeout(migrate, "5 seconds"))))

    it.effect(
      "the storage migration waits until an autovacuum yields, which takes a second",
      () =>
        TestClock.withLive(Effect.gen(function*() {
          const sql = yield* SqlClient.SqlClient
          yield* sql`DELETE FROM async_task_service_migrations WHERE migration_id >= 17`
          yield* duringBackup(
            Effect.fnUntraced(function*(end) {
              const migration = yield* Effect.forkChild(migrate)
              yield* Effect.repeat(
                sql`SELECT FROM pg_locks WHERE relation = 'tasks'::regclass AND NOT granted
                AND clock_timestamp() - waitstart > interval '1 second'`,
                { until: (rows) => rows.length > 0 }
              )
              yield* end
              yield* Fiber.join(migration)
            }),
            "tasks IN SHARE UPDATE EXCLUSIVE MODE"
          )
          assert.strictEqual(yield* Migrations.current(sql), Migrations.latest)
        })),
      10_000
    )
  }
)

layer(Database.layer)("Effect Cluster", (it) => {
  it.effect("has one migration, which a node skips when it finds the tables", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      yield* TestClock.withLive(Layer.build(SqlRunnerStorage.layerMigrations({})))
      assert.lengthOf(yield* sql`SELECT FROM cluster_runner_migrations`, 1)
    }))
})
