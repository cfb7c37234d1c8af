/**
 * Indexes on tables that may be large. They are built concurrently, after the migrations and outside a transaction, so that
 * statements of other nodes never wait for them. A build that was cut off leaves an invalid index, which the next start replaces.
 */
import { Deferred, Duration, Effect, Schedule, Schema } from "effect"
import { SqlClient, type SqlError } from "effect/sql"

/** Definitions by name, each without `CREATE INDEX CONCURRENTLY`. */
const definitions: Readonly<Record<string, string>> = {
  // Serves the search for tasks without an actor.
  tasks_running: "tasks (uuid) WHERE status IN ('pending', 'processing')",
  // Serves count and pages of a list, by status too. Status changes are not HOT updates anyway, because partial indexes
  // depend on the status: including it costs only width.
  tasks_list: "tasks (sub, created_at DESC, uuid DESC) INCLUDE (status)",
  // Serves the deletion of tasks after the retention period.
  tasks_ended: "tasks (completed_at) WHERE completed_at IS NOT NULL",
  // Serves the revocation of a token.
  tasks_token: "tasks (token_id) WHERE status = 'processing'",
  // Serve operators: tasks of all users, those that failed, and failed webhooks of one origin.
  // Ascending, although they read it backwards: pages are filled only where the newest entries come last.
  tasks_by_creation: "tasks (created_at, uuid) INCLUDE (status)",
  tasks_failed: "tasks (completed_at DESC, uuid DESC) WHERE status = 'failed'",
  webhook_deliveries_failed_of_origin:
    "webhook_deliveries (origin, created_at) WHERE due_at IS NULL AND delivered_at IS NULL"
}

/**
 * Dropped after the builds: `tasks_list` replaces `tasks_of_user`, and `tasks_by_creation` replaces `tasks_created`. `tasks_running`
 * replaces `tasks_live`, which the next release drops: nodes of the previous one search with it in each sweep.
 */
const obsolete = ["tasks_of_user", "tasks_created"]

const pollInterval = Duration.millis(200)
const longBuild = Duration.seconds(1)

const Rows = Schema.Tuple([Schema.Struct({ state: Schema.Literals(["absent", "building", "invalid", "valid"]) })])
const decodeRows = Schema.decodeUnknownEffect(Rows)

/** A node that was killed may have left a build that Postgres still runs. */
const stateOf = Effect.fnUntraced(function*(sql: SqlClient.SqlClient, name: string) {
  const rows = yield* sql`
    SELECT CASE
      WHEN index.indexrelid IS NULL THEN 'absent'
      WHEN index.indisvalid THEN 'valid'
      WHEN EXISTS (SELECT FROM pg_stat_progress_create_index WHERE index_relid = index.indexrelid) THEN 'building'
      ELSE 'invalid'
    END AS state
    FROM (SELECT to_regclass(${name}) AS oid) AS wanted LEFT JOIN pg_index AS index ON index.indexrelid = wanted.oid`
  const [{ state }] = yield* Effect.orDie(decodeRows(rows))
  return state
})

/** Logs a build that takes longer than on an empty table. */
const announce = (name: string) =>
  Effect.forkScoped(Effect.delay(Effect.logInfo(`building the index ${name}, which may take minutes`), longBuild))

const ensure = Effect.fnUntraced(function*(sql: SqlClient.SqlClient, name: string, definition: string) {
  const advance: Record<"absent" | "building" | "invalid", Effect.Effect<unknown, SqlError.SqlError>> = {
    absent: sql.unsafe(`CREATE INDEX CONCURRENTLY IF NOT EXISTS ${name} ON ${definition}`),
    building: Effect.sleep(pollInterval),
    invalid: sql.unsafe(`DROP INDEX CONCURRENTLY IF EXISTS ${name}`)
  }
  for (;;) {
    const state = yield* stateOf(sql, name)
    if (state === "valid") return
    yield* Effect.scoped(Effect.andThen(announce(name), advance[state]))
  }
})

/**
 * Lets one node build at a time: a transaction holds the lock until the scope closes. A lock of a session would not work through a
 * transaction pooler. No transaction may keep a snapshot open meanwhile, because builds wait for those of others.
 */
const lock = Effect.fnUntraced(function*(sql: SqlClient.SqlClient) {
  const isLocked = yield* Deferred.make<void, SqlError.SqlError>()
  const attempt = Effect.gen(function*() {
    const taken = yield* sql`
      SELECT FROM (SELECT pg_try_advisory_xact_lock(hashtextextended('async-task-service:indexes', 0)) AS taken) AS attempt
      WHERE taken`
    if (taken.length === 0) return
    // Ends the cursor of the query, which would keep its snapshot open.
    yield* sql`SAVEPOINT locked`
    yield* Deferred.succeed(isLocked, undefined)
    return yield* Effect.never
  })
  yield* Effect.repeat(sql.withTransaction(attempt), Schedule.spaced(pollInterval)).pipe(
    Effect.catch((error) => Deferred.fail(isLocked, error)),
    Effect.forkScoped
  )
  yield* Deferred.await(isLocked)
})

/** Builds the missing indexes and drops the obsolete ones. Needs two connections. */
export const build = Effect.scoped(Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  yield* lock(sql)
  yield* Effect.forEach(Object.entries(definitions), ([name, definition]) => ensure(sql, name, definition))
  yield* Effect.forEach(obsolete, (name) => sql.unsafe(`DROP INDEX CONCURRENTLY IF EXISTS ${name}`))
}))
