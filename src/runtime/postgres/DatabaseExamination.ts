/**
 * Connects to the hosts of a URL and reads what the server is: its version and rights, and whether a pooler is in front of it. Uses the
 * first host that accepts writes.
 */
import { PgConnection } from "@effect/sql-pg"
import { Duration, Effect, Predicate, Schema } from "effect"
import { SqlError } from "effect/sql"
import * as Migrations from "../../services/store/schema/Migrations.ts"
import type { Query } from "../../services/store/sql/Queries.ts"
import { rootCauseMessage } from "../../services/telemetry/RootCause.ts"
import { extensionTables } from "../loadedExtensions.ts"
import { type DatabaseUrl, type Host, type Hosts, isTlsOptional, nameOf, optionsFor } from "./DatabaseUrl.ts"

/** The message is one line for the operator. `mayPass`: the database may only be starting, or out of reach for a moment. */
export class DatabaseUnusable extends Schema.TaggedError<DatabaseUnusable>()("DatabaseUnusable", {
  message: Schema.String,
  problem: Schema.String,
  mayPass: Schema.Boolean
}) {}

export const unusable = (problem: string, mayPass = false) =>
  new DatabaseUnusable({ message: `The database cannot be used: ${problem}`, problem, mayPass })

/** `transaction`: each transaction may run on another server session. `session`: a session is kept, its settings are not. */
type Pooling = "none" | "session" | "transaction"

export interface Connection {
  /** The host that was found to accept writes is the first. */
  readonly hosts: Hosts
  /** To the first host. */
  readonly options: PgConnection.Config
  readonly pooling: Pooling
  /** As in `server_version_num`. */
  readonly version: number
}

export const requiredIsolation = "read committed"

const minVersion = 14
/** For one statement of the examination. A login has the URL's `connect_timeout`. */
const timeout = Duration.seconds(10)

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
  isolation: Schema.String,
  synchronousCommit: Schema.String,
  replicationRole: Schema.String,
  hasSchema: Schema.Boolean,
  /** The ledger of a database that was made before the first release. */
  oldLedger: Schema.NullOr(Schema.String),
  /** Triggers of extensions that read events. */
  readers: Schema.Array(Schema.String),
  hasClusterTables: Schema.Boolean,
  /** True if the role may create tables in `newSchema`. */
  mayCreate: Schema.Boolean,
  /** True if the role may change the existing tables. */
  mayChange: Schema.Boolean,
  pid: Schema.Int
})
export type Facts = typeof Facts.Type
const decodeFacts = Schema.decodeUnknownEffect(Schema.Tuple([Facts]))

const selectFacts = `
  SELECT current_setting('server_version_num')::int AS number, current_setting('server_version') AS version,
    pg_is_in_recovery() AS "isStandby", current_setting('transaction_read_only') = 'on' AS "isReadOnly",
    current_setting('server_encoding') AS encoding, current_user::text AS role, current_database()::text AS database,
    coalesce((SELECT nspname FROM pg_namespace WHERE oid = pg_class.relnamespace), current_schema())::text AS schema,
    current_schema()::text AS "newSchema",
    (SELECT min(nspname::text) FROM pg_class AS other JOIN pg_namespace ON pg_namespace.oid = other.relnamespace
      WHERE other.relname = 'cluster_runners' AND other.relkind = 'r' AND other.relpersistence = 'p' AND other.oid IS DISTINCT FROM to_regclass('cluster_runners')) AS "otherCluster",
    extract(epoch FROM pg_postmaster_start_time())::text AS "startedAt",
    current_setting('statement_timeout') <> '0' AS "hasTimeout", current_setting('default_transaction_isolation') AS isolation,
    current_setting('synchronous_commit') AS "synchronousCommit", current_setting('session_replication_role') AS "replicationRole",
    to_regclass('${Migrations.ledger}') IS NOT NULL AS "hasSchema",
    coalesce(${Migrations.oldLedgers.map((name) => `to_regclass('${name}')`).join(", ")})::text AS "oldLedger",
    ${Migrations.selectReaders} AS readers,
    to_regclass('cluster_runners') IS NOT NULL AS "hasClusterTables",
    coalesce(has_schema_privilege(current_schema(), 'CREATE'), false) AS "mayCreate",
    coalesce(pg_has_role(pg_class.relowner, 'USAGE'), true) AS "mayChange",
    pg_backend_pid() AS pid
  FROM (SELECT to_regclass('${Migrations.ledger}') AS oid) AS found LEFT JOIN pg_class ON pg_class.oid = found.oid`

const decodePid = Schema.decodeUnknownEffect(Schema.Tuple([Schema.Struct({ pid: Schema.Int })]))

const silent = new SqlError.SqlError({
  reason: new SqlError.ConnectionError({ message: "it does not answer", cause: new Error("it does not answer") })
})

/** Never prepares a statement: the next one may run on another session. */
const rowsOf = (connection: PgConnection.PgConnection, text: string) =>
  connection.query(text, [], false).pipe(
    Effect.timeoutOrElse({ duration: timeout, orElse: () => Effect.fail(silent) }),
    Effect.map(({ rows }) => rows)
  )

const select = <Row>(connection: PgConnection.PgConnection, { decode, text }: Query<Row>) =>
  Effect.map(rowsOf(connection, text), decode)

const connect = (options: PgConnection.Config) => PgConnection.make({ ...options, multiplex: true })

/**
 * True if two clients share server sessions. A direct connection, or one through a session pooler, keeps its own session.
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

export interface Examined extends Connection {
  readonly facts: Facts
  readonly versions: Migrations.Versions
}

const examineOptions = Effect.fnUntraced(function*(options: PgConnection.Config) {
  const connection = yield* connect(options)
  const [facts] = yield* Effect.orDie(decodeFacts(yield* rowsOf(connection, selectFacts)))
  const versions = Migrations.toVersions(facts.hasSchema ? yield* select(connection, Migrations.selectVersions) : [])
  // A pooler sends a key of its own to cancel statements.
  const isDirect = connection.processId === facts.pid
  const isShared = !isDirect
    && (yield* Effect.catchTag(isTransactionPooled(options, connection, facts.pid), "SchemaError", Effect.die))
  const pooling: Pooling = isDirect ? "none" : isShared ? "transaction" : "session"
  return { facts, pooling, version: facts.number, options, versions }
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

/** Codes of Node for a name without an address, as that of a container that has not started. */
const unresolved = /^(ENOTFOUND|EAI_AGAIN)$/

/** Codes of Node and Postgres for a server that is not there yet, starts, stops, or has no room at the moment. */
const passing = /^(ECONNREFUSED|ECONNRESET|ETIMEDOUT|EHOSTUNREACH|ENETUNREACH|ENOENT|57P0[1-3]|53300|08P01)$/

interface Failure {
  readonly text: string
  readonly mayPass: boolean
}

const permanent = (text: string): Failure => ({ text, mayPass: false })

/** Codes of Node for a certificate of an authority that is unknown here. */
const unproven = /SELF_SIGNED|UNABLE_TO/

/** Advice when the certificate of the server cannot be verified. Node's own advice does not apply to a database. */
const certificateProblem = (reason: string, { verifiedFor }: DatabaseUrl) => {
  const problem = reason.replace(/; if the root CA .*/, "")
  return verifiedFor === undefined
    ? `${problem}: set sslrootcert to the file of its authority's certificate`
    : `${problem}, which is verified in place of ${verifiedFor}: set sslrootcert to the file of its authority's certificate, or remove ${
      verifiedFor.split("=")[0]
    } to accept any server`
}

const isSilent = (error: SqlError.SqlError) =>
  error === silent || error.reason.message === "PgConnection: Connection timed out"

const failureOf = (error: SqlError.SqlError, url: DatabaseUrl, host: Host, setting: Setting): Failure => {
  const { cause, message } = error.reason
  const code = Predicate.hasProperty(cause, "code") ? String(cause.code) : ""
  if (isSilent(error)) return { text: `${nameOf(host)} does not answer`, mayPass: true }
  if (unresolved.test(code)) {
    return { text: `the name ${host.host} has no address (${code}): check the host of ${setting}`, mayPass: true }
  }
  const reason = explain(error, setting)
  return {
    text: unproven.test(code) ? certificateProblem(reason, url) : reason,
    // A load balancer closes a connection for which it has no server yet.
    mayPass: message === "PgConnection: Connection closed during startup" || passing.test(code)
  }
}

/** As libpq, falls back to a connection without TLS when `sslmode` allows it, but not after silence. */
const examineHost = (url: DatabaseUrl, host: Host, setting: Setting) => {
  const attempt = (isEncrypted: boolean) => examineOptions(optionsFor(url, host, isEncrypted))
  return attempt(true).pipe(
    Effect.catchIf(
      (error: SqlError.SqlError) => isTlsOptional(url) && error.reason._tag === "ConnectionError" && !isSilent(error),
      () => attempt(false)
    ),
    Effect.mapError((error) => failureOf(error, url, host, setting)),
    Effect.filterOrFail(
      ({ facts }) => !facts.isStandby,
      () => permanent("it is a standby, which refuses writes: use the primary")
    ),
    Effect.filterOrFail(({ facts }) => !facts.isReadOnly, ({ facts }) =>
      permanent(
        `it is read-only: default_transaction_read_only is on, which some providers set while a disk is full. Then free space, and write ${
          set(facts, "default_transaction_read_only", "off")
        }`
      ))
  )
}

/** The sources that give the sessions of the role a setting, whatever else sets it. */
const set = ({ database, role }: Facts, name: string, value: string) =>
  `ALTER ROLE "${role}" IN DATABASE "${database}" SET ${name} = ${value}`

const problemOf = ({ facts, pooling }: Examined): string | undefined => {
  if (facts.oldLedger !== null) return Migrations.problemOfOld(facts.oldLedger)
  if (facts.number < minVersion * 10_000) {
    return `Postgres ${facts.version} is too old, ${minVersion} or later is required`
  }
  if (facts.encoding !== "UTF8") {
    return `the encoding of "${facts.database}" is ${facts.encoding}: create it with ENCODING 'UTF8' TEMPLATE template0`
  }
  if (facts.schema === null) return `the search_path of the role "${facts.role}" has no schema that it may use`
  if (facts.replicationRole !== "origin") {
    const statement = set(facts, "session_replication_role", "origin")
    return `session_replication_role is ${facts.replicationRole}, and foreign keys do not work: as a superuser write ${statement}`
  }
  if (pooling !== "none" && facts.isolation !== requiredIsolation) {
    const statement = set(facts, "default_transaction_isolation", `'${requiredIsolation}'`)
    return `default_transaction_isolation is ${facts.isolation}, and a pooler lets no client choose another: write ${statement}, and let the pooler connect anew`
  }
  return Migrations.problemOfReaders(facts.readers, extensionTables)
}

/** Uses the first host that accepts writes. */
export const examine = Effect.fnUntraced(function*(
  url: DatabaseUrl,
  setting: Setting
): Effect.fn.Return<Examined, DatabaseUnusable> {
  const prefix = setting === "DATABASE_URL" ? "" : `${setting}: `
  const failures: Array<string> = []
  let mayPass = false
  for (const host of url.hosts) {
    const result = yield* Effect.result(examineHost(url, host, setting))
    if (result._tag === "Success") {
      const examined = { ...result.success, hosts: [host, ...url.hosts.filter((other) => other !== host)] as const }
      const problem = problemOf(examined)
      return problem === undefined ? examined : yield* unusable(prefix + problem)
    }
    const { text } = result.failure
    const name = nameOf(host)
    failures.push(url.hosts.length === 1 || text.startsWith(name) ? text : `${name}: ${text}`)
    mayPass ||= result.failure.mayPass
  }
  return yield* unusable(prefix + failures.join("; "), mayPass)
})
