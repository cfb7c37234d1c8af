/**
 * Opens the database before anything uses it, so that `serve`, `migrate` and `doctor` connect in the same way and report the
 * same problems. The database is reached by two connections: one for requests, and one for locks, LISTEN and migrations,
 * which a transaction pooler cannot carry. They differ only with DATABASE_DIRECT_URL.
 */
import { Duration, Effect, Schedule } from "effect"
import * as Migrations from "../../services/store/schema/Migrations.ts"
import { extensionTables } from "../loadedExtensions.ts"
import {
  type Connection,
  type DatabaseUnusable,
  examine,
  type Examined,
  type Facts,
  requiredIsolation,
  unusable
} from "./DatabaseExamination.ts"
import { type DatabaseUrl, nameOf, tlsProblemOf } from "./DatabaseUrl.ts"

export interface Database {
  readonly main: Connection
  /** For locks, LISTEN and migrations: `main` itself without DATABASE_DIRECT_URL. */
  readonly direct: Connection
  /** True if the role of `direct` may create tables and change the existing ones. */
  readonly mayMigrate: boolean
  readonly hasClusterTables: boolean
  readonly postgresVersion: string
  /** Which tables lack a migration; undefined if none do. */
  readonly behind: string | undefined
  /** Warnings: the database works, but perhaps not as the operator expects. */
  readonly warnings: ReadonlyArray<string>
}

/** Time for which a start waits for a database that may still be starting. */
const startRetry = Schedule.max([Schedule.spaced("250 millis"), Schedule.during("20 seconds")])

const mayMigrate = ({ mayChange, mayCreate }: Facts) => mayCreate && mayChange

const migrationProblemOf = ({ facts, versions }: Examined, isClustered: boolean): string | undefined => {
  if (mayMigrate(facts)) return undefined
  const what = facts.mayCreate
    ? `change the tables in the schema "${facts.schema}"`
    : `create tables in the schema "${facts.newSchema}"`
  const who = `the role "${facts.role}" may not ${what}`
  const advice = `run "async-task-service migrate" as a role that may`
  const behind = Migrations.behind(versions, extensionTables)
  if (behind !== undefined) return `${who}, and ${behind}: ${advice}`
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
  const version = Migrations.coreVersion(direct.versions)
  const tlsProblem = tlsProblemOf(databaseUrl, main.options, isProduction)
  const directTlsProblem = databaseDirectUrl && tlsProblemOf(databaseDirectUrl, direct.options, isProduction)
  const ignoredIn = (setting: string, url: DatabaseUrl | undefined) =>
    url === undefined || url.ignored.length === 0
      ? []
      : [`${setting}: the service does not use these parameters and ignores them: ${url.ignored.join(", ")}`]
  return [
    ...ignoredIn("DATABASE_URL", databaseUrl),
    ...ignoredIn("DATABASE_DIRECT_URL", databaseDirectUrl),
    ...(tlsProblem === undefined ? [] : [`DATABASE_URL: ${tlsProblem}`]),
    ...(directTlsProblem === undefined ? [] : [`DATABASE_DIRECT_URL: ${directTlsProblem}`]),
    ...(version > Migrations.latest
      ? [`the schema is at version ${version}, newer than this release, which knows ${Migrations.latest}`]
      : []),
    ...(isClustered && direct.facts.otherCluster !== null
      ? [
        `the schema "${direct.facts.otherCluster}" of this database has tables of a cluster too: only one cluster can own the shards, so give each a database`
      ]
      : []),
    ...(main.facts.synchronousCommit === "off"
      ? ["synchronous_commit is off: acknowledged tasks are lost when Postgres crashes"]
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
  const behind = Migrations.behind(direct.versions, extensionTables)
  const schemas = behind === undefined ? ["schema"] as const : ["schema", "newSchema"] as const
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
    behind,
    warnings: warningsOf(main, direct, target)
  }
})

/** Seconds after which a start first says that it waits, and then after each doubling. */
const firstNotice = 2

/** Like `open`, but waits for a database that is starting or out of reach, and says so. */
export const openWhenReachable = Effect.fnUntraced(function*(target: Target) {
  const { databaseDirectUrl, databaseUrl } = target
  const names = new Set([...databaseUrl.hosts, ...(databaseDirectUrl?.hosts ?? [])].map(nameOf))
  const at = [...names].join(", ")
  let problem = "it does not answer"
  const announce = Effect.gen(function*() {
    for (let seconds = firstNotice, said = 0;; said = seconds, seconds *= 2) {
      yield* Effect.sleep(Duration.seconds(seconds - said))
      yield* Effect.logWarning(`Waiting for the database at ${at} for ${seconds} s: ${problem}`)
    }
  })
  const opened = open(target).pipe(
    Effect.tapError((unusable) =>
      Effect.sync(() => {
        problem = unusable.problem.replace(`${at} does not`, "it does not")
      })
    ),
    Effect.retry({ while: ({ mayPass }) => mayPass, schedule: startRetry })
  )
  return yield* Effect.raceFirst(opened, announce)
})

/**
 * The settings that statements rely on, whatever the role or the database sets: locks come first, and what follows sees what others committed meanwhile;
 * the tables of Effect Cluster have times without a zone; idle connections stay open; and indexes are used. Compilation (`jit`) is off,
 * because before Postgres 18 a plan that must read a table whole seems to cost enough for it. Results are binary: no format matters.
 */
const relied = {
  default_transaction_isolation: requiredIsolation,
  TimeZone: "UTC",
  idle_session_timeout: "0",
  enable_indexscan: "on",
  enable_indexonlyscan: "on",
  enable_nestloop: "on",
  plan_cache_mode: "auto",
  jit: "off"
}

/**
 * Times are milliseconds, far above any healthy statement; a slow statement ends before `DatabaseSockets` closes its connection.
 * A session keeps the plans that it makes while tables are nearly empty, so these must not read tables whole.
 */
const limits = {
  statement_timeout: "10000",
  lock_timeout: "5000",
  idle_in_transaction_session_timeout: "15000",
  enable_seqscan: "off"
}

const unlimited = { statement_timeout: "0", lock_timeout: "0", idle_in_transaction_session_timeout: "0" }

/** A pooler refuses such parameters, so the operator sets them for the role. */
const withParameters = (
  { options, pooling, version }: Connection,
  startupParameters: Readonly<Record<string, string>>
) => ({
  ...options,
  // A prepared statement exists only on the session that prepared it.
  prepare: pooling !== "transaction",
  ...(pooling === "none"
    ? {
      startupParameters: {
        ...relied,
        ...(version >= 170_000 ? { transaction_timeout: "0" } : {}),
        ...startupParameters
      }
    }
    : {})
})

/** Options of connections that answer requests. */
export const limited = (connection: Connection) => withParameters(connection, limits)

/** Options of connections for searches, which end sooner than requests of clients may wait, and group many rows without a sort. */
export const brief = (connection: Connection) =>
  withParameters(connection, { ...limits, statement_timeout: "2000", work_mem: "32MB" })

/** Options of connections whose statements may take hours. */
export const patient = (connection: Connection) => withParameters(connection, unlimited)
