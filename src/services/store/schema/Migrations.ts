/**
 * Migrates the schema at start. The core and each extension that has tables number their migrations apart; one ledger records all. An
 * advisory lock serializes nodes that start together, and one transaction migrates or changes nothing.
 */
import { Effect, Layer, Schedule, Schema } from "effect"
import { SqlClient, SqlError } from "effect/sql"
import { query } from "../sql/Queries.ts"
import * as First from "./0001_schema.ts"
import * as ConvertDatabase from "./ConvertDatabase.ts"
import { functions } from "./Functions.ts"

/** The tables of the core or of an extension. */
export interface Tables {
  readonly name: string
  /** Statements by migration. A migration is only added, at the end: its place is the version that it makes. */
  readonly migrations: ReadonlyArray<ReadonlyArray<string>>
  /** Run after the migrations, whenever there was one. */
  readonly functions?: ReadonlyArray<string>
}

/** The tokens of a row of the outbox as one array, null without usage: it is narrower, and cheaper to write. */
const narrowUsageOutbox = [
  `ALTER TABLE usage_outbox RENAME TO wide_usage_outbox`,
  `CREATE TABLE usage_outbox (
    task_uuid uuid NOT NULL,
    assistant_id bigint NOT NULL,
    booked_at timestamptz NOT NULL,
    active_seconds bigint NOT NULL,
    sub text NOT NULL,
    model text,
    ended text,
    tokens bigint[]
  )`,
  `INSERT INTO usage_outbox
  SELECT task_uuid, assistant_id, booked_at, active_seconds, sub, model, ended,
    CASE WHEN is_metered
      THEN ARRAY[input_tokens, output_tokens, total_tokens, cached_input_tokens, reasoning_tokens] END
  FROM wide_usage_outbox`,
  `DROP TABLE wide_usage_outbox`
]

/** Most tasks have one event of the core, their last: a repetition of it is recognized without an index. */
const leaveLastEvents = [
  // First: it needs the stronger lock, so a migration that has to wait gives up before it builds anything.
  `DROP INDEX task_events_core_event_id`,
  `CREATE UNIQUE INDEX task_events_core_event_id ON task_events (task_uuid, core_event_id)
    WHERE core_event_id IS NOT NULL AND status IN ('processing', 'interrupted')`
]

/** Postgres parses and prepares a CHECK for each statement that writes: those of `tasks` were a quarter of what a task cost it. */
const dropChecks = [
  `ALTER TABLE tasks DROP CONSTRAINT IF EXISTS tasks_status, DROP CONSTRAINT IF EXISTS tasks_completed_at,
    DROP CONSTRAINT IF EXISTS tasks_pending_tool_calls, DROP CONSTRAINT IF EXISTS tasks_assistant_id`
]

/** With a condition that no other index has, or the planner takes that of the deadlines for it. */
const separateActive = [
  `DROP INDEX tasks_active_of_user`,
  `CREATE INDEX tasks_active_of_user ON tasks (sub) WHERE completed_at IS NULL`
]

/**
 * Logical replication refuses updates and deletes of a table without a primary key. No sequence: its state is not replicated. The first
 * index is built while its table is locked, which takes some seconds for each million pairs, unless an operator built it beforehand by
 * CREATE UNIQUE INDEX CONCURRENTLY; the other tables are small.
 */
const addPrimaryKeys = [
  // Statements of nodes lock `tasks` first: a lock that comes later would wait for one that waits for this migration.
  `LOCK TABLE tasks, task_labels, token_revocations, usage_outbox IN ACCESS EXCLUSIVE MODE`,
  `DROP INDEX task_labels_list`,
  `CREATE UNIQUE INDEX IF NOT EXISTS task_labels_pkey ON task_labels (label, created_at, task_uuid)`,
  `ALTER TABLE task_labels ADD PRIMARY KEY USING INDEX task_labels_pkey`,
  `ALTER TABLE token_revocations ADD COLUMN row_id uuid DEFAULT gen_random_uuid() PRIMARY KEY`,
  // In the order of the moments, so that booking finds the oldest rows without those that it has deleted.
  `ALTER TABLE usage_outbox ADD COLUMN revision integer NOT NULL DEFAULT 0,
    ADD PRIMARY KEY (booked_at, task_uuid, revision)`
]

/** The revision whose event brought the turn: not each failure and each interrupt brings one. Null without, and in older rows. */
const dateTurns = [`ALTER TABLE tasks ADD COLUMN IF NOT EXISTS turn_revision integer`]

/** Only the functions have changed. */
const replaceFunctions: ReadonlyArray<string> = []

/** A small migration is a list of statements here, a long one a file. */
const core: Tables = {
  name: "core",
  migrations: [
    First.statements,
    narrowUsageOutbox,
    leaveLastEvents,
    dropChecks,
    separateActive,
    replaceFunctions,
    replaceFunctions,
    replaceFunctions,
    addPrimaryKeys,
    dateTurns
  ],
  functions
}

/** The version of the core's tables that `/readyz` requires. */
export const latest = core.migrations.length

/** The table with one row for each migration. */
export const ledger = "async_task_service_schema"

const createLedger = `CREATE TABLE IF NOT EXISTS ${ledger} (
  owner text NOT NULL,
  version integer NOT NULL,
  migrated_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (owner, version)
)`

const Version = Schema.Struct({ owner: Schema.String, version: Schema.Int })
export const selectVersions = query(Version, `SELECT owner, max(version) AS version FROM ${ledger} GROUP BY owner`)

export type Versions = ReadonlyMap<string, number>
export const toVersions = (rows: ReadonlyArray<typeof Version.Type>): Versions =>
  new Map(rows.map(({ owner, version }) => [owner, version]))

const versionOf = (versions: Versions, { name }: Tables) => versions.get(name) ?? 0

/** The first tables of the core and `extensions` that lack a migration: what they are and their version; undefined if none do. */
export const behind = (versions: Versions, extensions: ReadonlyArray<Tables>): string | undefined => {
  const tables = [core, ...extensions].find((tables) => versionOf(versions, tables) < tables.migrations.length)
  if (tables === undefined) return undefined
  const what = tables === core ? "the schema is" : `the tables of ${tables.name} are`
  return `${what} at version ${versionOf(versions, tables)} of ${tables.migrations.length}`
}

export const coreVersion = (versions: Versions) => versionOf(versions, core)

/** Without `to_regclass`: the session would remember that the table is absent, although another node creates it next. */
export const current = Effect.fnUntraced(function*(sql: SqlClient.SqlClient) {
  const found = yield* sql`SELECT FROM pg_class WHERE relname = ${ledger} AND pg_table_is_visible(oid)`
  return toVersions(found.length === 0 ? [] : selectVersions.decode(yield* sql.unsafe(selectVersions.text)))
})

/** A statement that waits for a lock blocks later ones on its table, so a migration gives up soon and is repeated. */
const lockTimeout = "500ms"
const lockRetry = Schedule.spaced("2 seconds")

const isLockTimeout = (error: unknown): boolean =>
  SqlError.isSqlError(error) && error.reason._tag === "LockTimeoutError"

/** The statements that bring tables from version `from` to the newest one. */
const upgradeOf = ({ functions = [], migrations, name }: Tables, from: number) =>
  from >= migrations.length ? [] : [
    ...migrations.slice(from).flat(),
    `INSERT INTO ${ledger} (owner, version) SELECT '${name}', generate_series(${from + 1}, ${migrations.length})`,
    ...functions
  ]

const migrate = Effect.fnUntraced(function*(extensions: ReadonlyArray<Tables>) {
  const sql = yield* SqlClient.SqlClient
  if (behind(yield* current(sql), extensions) === undefined) return
  const announce = yield* Effect.cached(
    Effect.logWarning("the migration waits for a lock of another session, such as a backup")
  )
  yield* sql.withTransaction(Effect.gen(function*() {
    // The duration of a migration, and of the wait for another node's, grows with the tables: no statement timeout.
    yield* sql`SELECT set_config('statement_timeout', '0', true), set_config('lock_timeout', '0', true)`
    // Many statements in one round trip, because the database may be far away.
    const run = (statements: ReadonlyArray<string>) =>
      sql.unsafe(`DO $migration$ BEGIN\n${[...statements, "NULL"].join(";\n")};\nEND $migration$`)
    yield* run([
      `PERFORM pg_advisory_xact_lock(hashtextextended('async-task-service:migrations', 0))`,
      `PERFORM set_config('lock_timeout', '${lockTimeout}', true)`,
      createLedger
    ])
    const versions = toVersions(selectVersions.decode(yield* sql.unsafe(selectVersions.text)))
    const isOld = versions.size === 0 && (yield* ConvertDatabase.isNeeded(sql))
    const first: Tables = isOld
      ? { ...core, migrations: [ConvertDatabase.statements, ...core.migrations.slice(1)] }
      : core
    yield* run([first, ...extensions].flatMap((tables) => upgradeOf(tables, versionOf(versions, tables))))
  })).pipe(
    Effect.tapError((error) => isLockTimeout(error) ? announce : Effect.void),
    Effect.retry({ while: isLockTimeout, schedule: lockRetry })
  )
})

export const layer = (
  extensions: ReadonlyArray<Tables> = []
): Layer.Layer<never, ConvertDatabase.NotConvertible | SqlError.SqlError, SqlClient.SqlClient> =>
  Layer.effectDiscard(migrate(extensions))
