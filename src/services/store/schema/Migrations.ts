/**
 * Migrates the schema at start. The core and each extension that has tables number their migrations apart; one ledger records all. An
 * advisory lock serializes nodes that start together, and one transaction migrates or changes nothing.
 */
import { Effect, Layer, Schedule, Schema } from "effect"
import { SqlClient, SqlError } from "effect/sql"
import { query } from "../sql/Queries.ts"
import { statements } from "./0001_schema.ts"
import { statements as queue } from "./0002_queue.ts"
import { statements as actors } from "./0003_actors.ts"
import { functions } from "./Functions.ts"

/** The tables of the core or of an extension. */
export interface Tables {
  readonly name: string
  /** Statements by migration. A migration is only added, at the end: its place is the version that it makes. */
  readonly migrations: ReadonlyArray<ReadonlyArray<string>>
  /** Run after the migrations, whenever there was one. */
  readonly functions?: ReadonlyArray<string>
  /**
   * Statements in PL/pgSQL that read `new_events`, the rows of `task_events` that a commit inserts, at the end of its transaction: what they
   * write is written if and only if the events are, and a fault in them fails every commit. `tasks` has what became of the tasks; of two
   * events of one task it matches the last. They run once the extension was in a service that started (`enableReaders`).
   */
  readonly onEvents?: string
}

/**
 * A small migration is a list of statements here, a long one a file, and one that only replaces the functions is empty. A migration first
 * takes the strongest locks that it needs, so that one that has to wait gives up before it builds anything, and `tasks` before other
 * tables: statements of nodes lock it first.
 */
const core: Tables = { name: "core", migrations: [statements, queue, actors, []], functions }

const triggerPrefix = "async_task_service_"
const triggerOf = (extension: string) => triggerPrefix + extension

/** One call for each statement that inserts events. */
const readerOf = (extension: string, onEvents: string) => [
  `CREATE OR REPLACE FUNCTION ${triggerOf(extension)}() RETURNS trigger LANGUAGE plpgsql AS $$
  BEGIN
    IF (SELECT is_enabled FROM task_event_readers WHERE extension = '${extension}') THEN
      ${onEvents}
    END IF;
    RETURN NULL;
  END $$`,
  `CREATE OR REPLACE TRIGGER ${triggerOf(extension)} AFTER INSERT ON task_events REFERENCING NEW TABLE AS new_events
    FOR EACH STATEMENT EXECUTE FUNCTION ${triggerOf(extension)}()`,
  `INSERT INTO task_event_readers (extension, is_enabled) VALUES ('${extension}', true) ON CONFLICT DO NOTHING`
]

/** The triggers of extensions, as an array in SQL. */
export const selectReaders = `ARRAY(
  SELECT tgname::text FROM pg_trigger WHERE tgrelid = to_regclass('task_events') AND NOT tgisinternal
    AND starts_with(tgname::text, '${triggerPrefix}') ORDER BY 1
)`

/** The problem of a trigger that none of `extensions` has. It may fail each commit, so a start refuses it. */
export const problemOfReaders = (triggers: ReadonlyArray<string>, extensions: ReadonlyArray<Tables>) => {
  const known = new Set(extensions.filter(({ onEvents }) => onEvents !== undefined).map(({ name }) => triggerOf(name)))
  const unknown = triggers.find((trigger) => !known.has(trigger))
  return unknown &&
    `the trigger ${unknown} on task_events belongs to an extension that this version does not have, and may fail`
      + ` each change of a task: start a version with the extension, or write DROP TRIGGER ${unknown} ON task_events`
}

/** The version of the core's tables that `/readyz` requires. */
export const latest = core.migrations.length

/** The table with one row for each migration. */
export const ledger = "async_task_service_versions"

/** Ledgers of databases from before the first release: their versions say nothing of this schema. */
export const oldLedgers = ["async_task_service_schema", "async_task_service_migrations"]

export const problemOfOld = (oldLedger: string) =>
  `it was made before the first release, as its table ${oldLedger} shows, and cannot be converted: set DATABASE_URL to an empty database, or DATA_DIR to a new directory if DATABASE_URL is not set`

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
const upgradeOf = ({ functions = [], migrations, name, onEvents }: Tables, from: number) =>
  from >= migrations.length ? [] : [
    ...migrations.slice(from).flat(),
    `INSERT INTO ${ledger} (owner, version) SELECT '${name}', generate_series(${from + 1}, ${migrations.length})`,
    ...functions,
    ...(onEvents === undefined ? [] : readerOf(name, onEvents))
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
    yield* run([core, ...extensions].flatMap((tables) => upgradeOf(tables, versionOf(versions, tables))))
  })).pipe(
    Effect.tapError((error) => isLockTimeout(error) ? announce : Effect.void),
    Effect.retry({ while: isLockTimeout, schedule: lockRetry })
  )
})

export const layer = (
  extensions: ReadonlyArray<Tables> = []
): Layer.Layer<never, SqlError.SqlError, SqlClient.SqlClient> => Layer.effectDiscard(migrate(extensions))

/** Makes the triggers of these extensions read events. */
export const enableReaders = (extensions: ReadonlyArray<string>) =>
  Layer.effectDiscard(Effect.gen(function*() {
    const sql = yield* SqlClient.SqlClient
    yield* sql.unsafe(
      `INSERT INTO task_event_readers (extension, is_enabled) SELECT value, true FROM jsonb_array_elements_text($1::text::jsonb)
      ON CONFLICT (extension) DO UPDATE SET is_enabled = true WHERE NOT task_event_readers.is_enabled`,
      [JSON.stringify(extensions)]
    )
  }))
