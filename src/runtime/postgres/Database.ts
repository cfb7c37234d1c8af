/**
 * Examines the database before anything uses it, so that `serve`, `migrate` and `doctor` connect in the same way and report the
 * same problems. The database is reached by two connections: one for requests, and one for locks, LISTEN and migrations,
 * which a transaction pooler cannot carry. They differ only with DATABASE_DIRECT_URL.
 */
import { PgConnection } from "@effect/sql-pg"
import { Duration, Effect, Schema } from "effect"
import type { SqlError } from "effect/sql"
import * as Migrations from "../../services/store/Migrations.ts"
import { rootCauseMessage } from "../../services/telemetry/RootCause.ts"
import { type DatabaseUrl, type Host, type Hosts, isTlsOptional, optionsFor, tlsProblemOf } from "./DatabaseUrl.ts"

/** The message is one line for the operator. */
export class DatabaseUnusable extends Schema.TaggedError<DatabaseUnusable>()("DatabaseUnusable", {
  message: Schema.String
}) {}

const unusable = (message: string) => new DatabaseUnusable({ message: `The database cannot be used: ${message}` })

/** `transaction`: each transaction may run on another server session. `session`: a session is kept, its settings are not. */
type Pooling = "none" | "session" | "transaction"

export interface Connection {
  /** The host that was found to accept writes is the first. */
  readonly hosts: Hosts
  /** To the first host. */
  readonly options: PgConnection.Config
  readonly pooling: Pooling
}

export interface Database {
  readonly main: Connection
  /** For locks, LISTEN and migrations: `main` itself without DATABASE_DIRECT_URL. */
  readonly direct: Connection
  /** Whether the role of `direct` may create tables and change the existing ones. */
  readonly mayMigrate: boolean
  readonly hasClusterTables: boolean
  readonly postgresVersion: string
  /** The newest migration in the database; 0 without any. */
  readonly schemaVersion: number
  /** Warnings: the database works, but perhaps not as the operator expects. */
  readonly warnings: ReadonlyArray<string>
}

const minVersion = 14
/** For the whole examination of one host. */
const timeout = Duration.seconds(15)

const Facts = Schema.Struct({
  number: Schema.Int,
  version: Schema.String,
  isStandby: Schema.Boolean,
  isReadOnly: Schema.Boolean,
  encoding: Schema.String,
  role: Schema.String,
  database: Schema.String,
  /** Schema of the existing tables. Equals `newSchema` before the first migration. */
  schema: Schema.NullOr(Schema.String),
  /** Schema in which a migration creates tables and functions. */
  newSchema: Schema.NullOr(Schema.String),
  otherCluster: Schema.NullOr(Schema.String),
  startedAt: Schema.String,
  hasTimeout: Schema.Boolean,
  hasSchema: Schema.Boolean,
  hasClusterTables: Schema.Boolean,
  /** Whether the role may create tables in `newSchema`. */
  mayCreate: Schema.Boolean,
  /** Whether the role may change the existing tables. */
  mayChange: Schema.Boolean,
  pid: Schema.Int
})
type Facts = typeof Facts.Type
const decodeFacts = Schema.decodeUnknownEffect(Schema.Tuple([Facts]))

const selectFacts = `
  SELECT current_setting('server_version_num')::int AS number, current_setting('server_version') AS version,
    pg_is_in_recovery() AS "isStandby", current_setting('transaction_read_only') = 'on' AS "isReadOnly",
    current_setting('server_encoding') AS encoding, current_user::text AS role, current_database()::text AS database,
    coalesce((SELECT nspname FROM pg_namespace WHERE oid = pg_class.relnamespace), current_schema())::text AS schema,
    current_schema()::text AS "newSchema",
    (SELECT min(nspname::text) FROM pg_class AS other JOIN pg_namespace ON pg_namespace.oid = other.relnamespace
      WHERE other.relname = 'cluster_runners' AND other.relkind = 'r' AND other.relpersistence = 'p' AND other.oid IS DISTINCT FROM to_regclass('cluster_runners')) AS "otherCluster",
    pg_postmaster_start_time()::text AS "startedAt",
    current_setting('statement_timeout') <> '0' AS "hasTimeout", found.oid IS NOT NULL AS "hasSchema",
    to_regclass('cluster_runners') IS NOT NULL AS "hasClusterTables",
    coalesce(has_schema_privilege(current_schema(), 'CREATE'), false) AS "mayCreate",
    coalesce(pg_has_role(pg_class.relowner, 'USAGE'), true) AS "mayChange",
    pg_backend_pid() AS pid
  FROM (SELECT to_regclass('async_task_service_migrations') AS oid) AS found
  LEFT JOIN pg_class ON pg_class.oid = found.oid`

const selectVersion = `SELECT coalesce(max(migration_id), 0)::int AS id FROM async_task_service_migrations`
const decodeVersion = Schema.decodeUnknownEffect(Schema.Tuple([Schema.Struct({ id: Schema.Int })]))

const decodePid = Schema.decodeUnknownEffect(Schema.Tuple([Schema.Struct({ pid: Schema.Int })]))

/** Never prepares a statement: the next one may run on another session. */
const rowsOf = (connection: PgConnection.PgConnection, text: string) =>
  Effect.map(connection.query(text, [], false), ({ rows }) => rows)

const connect = (options: PgConnection.Config) => PgConnection.make({ ...options, multiplex: true })

/**
 * Whether two clients share server sessions. A direct connection, or one through a session pooler, keeps its own session.
 * A transaction pooler gives a session that became free to the next transaction: the same to both clients, or another to
 * the same client. Locks and LISTEN belong to a session, so a test of these would find the same but leave them behind.
 */
const isTransactionPooled = Effect.fnUntraced(
  function*(options: PgConnection.Config, first: PgConnection.PgConnection, pid: number) {
    const second = yield* connect(options)
    for (const client of [first, second, first, first, second]) {
      const [now] = yield* decodePid(yield* rowsOf(client, "SELECT pg_backend_pid() AS pid"))
      if ((now.pid === pid) !== (client === first)) return true
    }
    return false
  },
  Effect.scoped
)

interface Examined extends Connection {
  readonly facts: Facts
  readonly schemaVersion: number
}

const examineOptions = Effect.fnUntraced(function*(options: PgConnection.Config) {
  const connection = yield* connect(options)
  const [facts] = yield* Effect.orDie(decodeFacts(yield* rowsOf(connection, selectFacts)))
  const [version] = facts.hasSchema ? yield* Effect.orDie(decodeVersion(yield* rowsOf(connection, selectVersion))) : []
  const isShared = yield* Effect.catchTag(
    isTransactionPooled(options, connection, facts.pid),
    "SchemaError",
    Effect.die
  )
  // A pooler sends a key of its own to cancel statements.
  const pooling: Pooling = isShared ? "transaction" : connection.processId === facts.pid ? "none" : "session"
  return { facts, pooling, options, schemaVersion: version?.id ?? 0 }
}, Effect.scoped)

type Setting = "DATABASE_URL" | "DATABASE_DIRECT_URL"

/** The root cause, or what to do about one that the driver reports in its own terms. */
const explain = (error: SqlError.SqlError, setting: Setting) => {
  const example = `set ${setting} as in postgres://user:password@host:5432/database`
  switch (error.reason.message.replace("PgConnection: ", "")) {
    case "No username configured":
      return `the URL names no user: ${example}`
    case "No password configured":
      return `the server requires a password, and the URL has none: ${example}`
    case "Connection closed during startup":
    case "Failed to parse SSLRequest error response":
    case "Failed to parse server response":
    case "Invalid SSLRequest response":
    case "Protocol desync":
      return `the server does not answer as Postgres does: check the host and port of ${setting}`
    default:
      return rootCauseMessage(error)
  }
}

/** As libpq, falls back to a connection without TLS when `sslmode` allows it. */
const examineHost = (url: DatabaseUrl, host: Host, setting: Setting) => {
  const attempt = (isEncrypted: boolean) => examineOptions(optionsFor(url, host, isEncrypted))
  return attempt(true).pipe(
    Effect.catchIf(
      ({ reason }: SqlError.SqlError) => isTlsOptional(url) && reason._tag === "ConnectionError",
      () => attempt(false)
    ),
    Effect.mapError((error) => explain(error, setting)),
    Effect.timeoutOrElse({ duration: timeout, orElse: () => Effect.fail("it does not answer") }),
    Effect.filterOrFail(
      ({ facts }) => !facts.isStandby,
      () => "it is a standby, which refuses writes: use the primary"
    ),
    Effect.filterOrFail(({ facts }) => !facts.isReadOnly, () => "it is read-only")
  )
}

const problemOf = ({ facts }: Examined): string | undefined => {
  if (facts.number < minVersion * 10_000) {
    return `Postgres ${facts.version} is too old, ${minVersion} or later is required`
  }
  if (facts.encoding !== "UTF8") {
    return `the encoding of "${facts.database}" is ${facts.encoding}: create it with ENCODING 'UTF8' TEMPLATE template0`
  }
  if (facts.schema === null) return `the search_path of the role "${facts.role}" has no schema that it may use`
  return undefined
}

/** Uses the first host that accepts writes. */
const examine = Effect.fnUntraced(function*(
  url: DatabaseUrl,
  setting: Setting
): Effect.fn.Return<Examined, DatabaseUnusable> {
  const prefix = setting === "DATABASE_URL" ? "" : `${setting}: `
  const failures: Array<string> = []
  for (const host of url.hosts) {
    const result = yield* Effect.result(examineHost(url, host, setting))
    if (result._tag === "Success") {
      const examined = { ...result.success, hosts: [host, ...url.hosts.filter((other) => other !== host)] as const }
      const problem = problemOf(examined)
      return problem === undefined ? examined : yield* unusable(prefix + problem)
    }
    failures.push(url.hosts.length === 1 ? result.failure : `${host.host}:${host.port}: ${result.failure}`)
  }
  return yield* unusable(prefix + failures.join("; "))
})

const mayMigrate = ({ mayChange, mayCreate }: Facts) => mayCreate && mayChange

const migrationProblemOf = ({ facts, schemaVersion }: Examined, isClustered: boolean): string | undefined => {
  if (mayMigrate(facts)) return undefined
  const what = facts.mayCreate
    ? `change the tables in the schema "${facts.schema}"`
    : `create tables in the schema "${facts.newSchema}"`
  const who = `the role "${facts.role}" may not ${what}`
  const advice = `run "async-task-service migrate" as a role that may`
  if (schemaVersion < Migrations.latest) {
    return `${who}, and the schema is at version ${schemaVersion} of ${Migrations.latest}: ${advice}`
  }
  return isClustered && !facts.hasClusterTables
    ? `${who}, and the tables of the cluster are missing: ${advice}`
    : undefined
}

/** The settings of the database. */
export interface Target {
  readonly databaseUrl: DatabaseUrl
  readonly databaseDirectUrl: DatabaseUrl | undefined
  readonly isClustered: boolean
  readonly isProduction: boolean
}

const warningsOf = (main: Examined, direct: Examined, target: Target): ReadonlyArray<string> => {
  const { databaseDirectUrl, databaseUrl, isClustered, isProduction } = target
  const tlsProblem = tlsProblemOf(databaseUrl, main.options, isProduction)
  const directTlsProblem = databaseDirectUrl && tlsProblemOf(databaseDirectUrl, direct.options, isProduction)
  return [
    ...(tlsProblem === undefined ? [] : [`DATABASE_URL: ${tlsProblem}`]),
    ...(directTlsProblem === undefined ? [] : [`DATABASE_DIRECT_URL: ${directTlsProblem}`]),
    ...(direct.schemaVersion > Migrations.latest
      ? [`the schema is at version ${direct.schemaVersion}, newer than this release, which knows ${Migrations.latest}`]
      : []),
    ...(isClustered && direct.facts.otherCluster !== null
      ? [
        `the schema "${direct.facts.otherCluster}" of this database has tables of a cluster too: only one cluster can own the shards, so give each a database`
      ]
      : []),
    ...(main.pooling !== "none" && !main.facts.hasTimeout
      ? [`statements have no timeout behind the pooler: ALTER ROLE "${main.facts.role}" SET statement_timeout = '10s'`]
      : [])
  ]
}

export const open = Effect.fnUntraced(function*(target: Target): Effect.fn.Return<Database, DatabaseUnusable> {
  const { databaseDirectUrl, databaseUrl, isClustered } = target
  const main = yield* examine(databaseUrl, "DATABASE_URL")
  const direct = databaseDirectUrl === undefined ? main : yield* examine(databaseDirectUrl, "DATABASE_DIRECT_URL")
  if (databaseDirectUrl !== undefined && direct.pooling === "transaction") {
    return yield* unusable("DATABASE_DIRECT_URL leads to a transaction pooler: it has to lead to Postgres itself")
  }
  if (direct.facts.startedAt !== main.facts.startedAt || direct.facts.database !== main.facts.database) {
    return yield* unusable("DATABASE_DIRECT_URL leads to another database than DATABASE_URL")
  }
  // `main` would not see what a migration creates in another schema.
  const schemas = direct.schemaVersion < Migrations.latest ? ["schema", "newSchema"] as const : ["schema"] as const
  const different = schemas.find((schema) => direct.facts[schema] !== main.facts[schema])
  if (different !== undefined) {
    return yield* unusable(
      `DATABASE_DIRECT_URL leads to the schema "${direct.facts[different]}", DATABASE_URL to "${
        main.facts[different]
      }": both need the same search_path`
    )
  }
  if (isClustered && direct.pooling === "transaction") {
    return yield* unusable(
      "CLUSTER is on and DATABASE_URL leads to a transaction pooler, which cannot hold the locks of a cluster: set DATABASE_DIRECT_URL"
    )
  }
  const problem = migrationProblemOf(direct, isClustered)
  if (problem !== undefined) return yield* unusable(problem)
  return {
    main,
    direct,
    mayMigrate: mayMigrate(direct.facts),
    hasClusterTables: direct.facts.hasClusterTables,
    postgresVersion: main.facts.version,
    schemaVersion: direct.schemaVersion,
    warnings: warningsOf(main, direct, target)
  }
})

/**
 * Times are milliseconds, far above any healthy statement; a slow statement ends before `DatabaseSockets` closes its connection.
 * A session keeps the plans that it makes while tables are nearly empty, so these must not read tables whole. Compilation
 * (`jit`) is off, because before Postgres 18 a plan that must read a table whole seems to cost enough for it.
 */
const limits = {
  statement_timeout: "10000",
  lock_timeout: "5000",
  idle_in_transaction_session_timeout: "15000",
  enable_seqscan: "off",
  jit: "off"
}

const unlimited = { statement_timeout: "0", lock_timeout: "0", idle_in_transaction_session_timeout: "0" }

/** A pooler refuses such parameters, so the operator sets them for the role. */
const withParameters = ({ options, pooling }: Connection, startupParameters: Readonly<Record<string, string>>) => ({
  ...options,
  // A prepared statement exists only on the session that prepared it.
  prepare: pooling !== "transaction",
  ...(pooling === "none" ? { startupParameters } : {})
})

/** Options of connections that answer requests. */
export const limited = (connection: Connection) => withParameters(connection, limits)

/** Options of connections for searches, which end sooner than requests of clients may wait. */
export const brief = (connection: Connection) => withParameters(connection, { ...limits, statement_timeout: "2000" })

/** Options of connections whose statements may take hours. */
export const patient = (connection: Connection) => ({
  ...withParameters(connection, unlimited),
  keepAlive: Duration.seconds(30)
})
