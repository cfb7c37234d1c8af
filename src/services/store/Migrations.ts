/**
 * Migrates the schema at start. An advisory lock serializes nodes that start together. A migration must not rewrite a large table,
 * nor build an index on one: see `Indexes`.
 */
import { Effect, Layer, Schedule, Schema } from "effect"
import { Migrator, SqlClient, SqlError } from "effect/sql"
import * as Indexes from "./Indexes.ts"
import * as Tasks from "./migrations/0001_tasks.ts"
import * as IdempotencyKeys from "./migrations/0002_idempotency_keys.ts"
import * as TokenRevocations from "./migrations/0005_token_revocations.ts"
import * as Webhooks from "./migrations/0006_webhooks.ts"
import * as Nodes from "./migrations/0007_nodes.ts"
import * as WebhookRedeliveries from "./migrations/0008_webhook_redeliveries.ts"
import * as RecoveryTrials from "./migrations/0009_recovery_trials.ts"
import * as Requests from "./migrations/0012_requests.ts"
import * as FacadeLegs from "./migrations/0014_facade_legs.ts"
import * as CallbackFormats from "./migrations/0015_callback_formats.ts"
import * as Operators from "./migrations/0016_operators.ts"
import * as Storage from "./migrations/0017_storage.ts"
import * as TwoEvents from "./migrations/0018_two_events.ts"
import { query } from "./Queries.ts"

/** A statement that waits for a lock blocks later ones on its table, so a migration gives up soon and is repeated. */
const lockTimeout = "500ms"

const run = (statements: ReadonlyArray<string>) =>
  Effect.gen(function*() {
    const sql = yield* SqlClient.SqlClient
    yield* sql`SELECT set_config('lock_timeout', ${lockTimeout}, true)`
    yield* Effect.forEach(statements, (statement) => sql.unsafe(statement), { discard: true })
  })

const migrations = {
  "0001_tasks": run(Tasks.statements),
  "0002_idempotency_keys": run(IdempotencyKeys.statements),
  // Their indexes are built by `Indexes`.
  "0003_list": Effect.void,
  "0004_retention": Effect.void,
  "0005_token_revocations": run(TokenRevocations.statements),
  "0006_webhooks": run(Webhooks.statements),
  "0007_nodes": run(Nodes.statements),
  "0008_webhook_redeliveries": run(WebhookRedeliveries.statements),
  "0009_recovery_trials": run(RecoveryTrials.statements),
  // The function is created by 0012.
  "0010_commit_task": Effect.void,
  "0012_requests": run(Requests.statements),
  "0014_facade_legs": run(FacadeLegs.statements),
  "0015_callback_formats": run(CallbackFormats.statements),
  "0016_operators": run(Operators.statements),
  "0017_storage": run(Storage.statements),
  "0018_two_events": run(TwoEvents.statements)
}

const loader = Migrator.fromRecord(migrations)

/** The id of the newest migration, which `/readyz` requires. */
export const latest = Math.max(...Object.keys(migrations).map((name) => Number.parseInt(name, 10)))

const newest = query(
  Schema.Struct({ id: Schema.Int }),
  `SELECT coalesce(max(migration_id), 0)::int AS id FROM async_task_service_migrations`
)

/** The id of the newest migration in the database. */
export const current = (sql: SqlClient.SqlClient) =>
  Effect.map(sql.unsafe(newest.text), (rows) => newest.decode(rows)[0]?.id ?? 0)

/** Without `to_regclass`: the session would remember that the table is absent, although another node creates it next. */
const isCurrent = (sql: SqlClient.SqlClient) =>
  Effect.flatMap(
    sql`SELECT FROM pg_class WHERE relname = 'async_task_service_migrations' AND pg_table_is_visible(oid)`,
    (rows) => rows.length === 0 ? Effect.succeed(false) : Effect.map(current(sql), (id) => id >= latest)
  )

const lockRetry = Schedule.spaced("2 seconds")

const isLockTimeout = (error: Migrator.MigrationError | SqlError.SqlError): boolean => {
  const cause = error._tag === "MigrationError" ? error.cause : error
  return SqlError.isSqlError(cause) && cause.reason._tag === "LockTimeoutError"
}

const migrate = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  if (yield* isCurrent(sql)) return
  const announce = yield* Effect.cached(
    Effect.logWarning("the migration waits for a lock of another session, such as a backup")
  )
  yield* sql.withTransaction(Effect.gen(function*() {
    // The duration of a migration, and of the wait for another node's, grows with the tables: no statement timeout.
    yield* sql`SELECT set_config('statement_timeout', '0', true), set_config('lock_timeout', '0', true)`
    yield* sql`SELECT pg_advisory_xact_lock(hashtextextended('async-task-service:migrations', 0))`
    yield* sql`SELECT set_config('lock_timeout', ${lockTimeout}, true)`
    yield* Migrator.make({})({ loader, table: "async_task_service_migrations" })
  })).pipe(
    Effect.tapError((error) => isLockTimeout(error) ? announce : Effect.void),
    Effect.retry({ while: isLockTimeout, schedule: lockRetry })
  )
})

export const layer = Layer.effectDiscard(Effect.andThen(migrate, Indexes.build))
