/**
 * The service's SQL client: the driver's connection pool behind an admission gate, which a monitor closes while the database
 * is unavailable. Every statement of the service is one round trip, so there are no transactions here; migrations have their own
 * client.
 */
import { PgClient, type PgConnection, PgPool } from "@effect/sql-pg"
import { Context, Effect, Layer, Redacted, Stream } from "effect"
import { Reactivity } from "effect/reactivity"
import { SqlClient, type SqlConnection } from "effect/sql"
import * as AdmissionGate from "./AdmissionGate.ts"
import * as DatabaseMonitor from "./DatabaseMonitor.ts"
import { DatabaseSockets } from "./DatabaseSockets.ts"

export interface Options extends PgConnection.Config {
  readonly url: Redacted.Redacted
  readonly maxConnections: number
}

/** Pipelined statements of one connection. The driver's default of 32 halves the throughput of inserts. */
const multiplexConcurrency = 5

type TransformRows = Parameters<SqlConnection.Connection["execute"]>[2]

/** Adapts the driver's session to `effect/sql`; the driver does not export its own adapter. */
const adapt = (session: PgConnection.PgConnection): SqlConnection.Connection => {
  const run = (text: string, values: ReadonlyArray<unknown>, transform: TransformRows, prepare?: boolean) =>
    Effect.map(session.query(text, values, prepare), ({ rows }) => transform === undefined ? rows : transform(rows))
  return {
    execute: (text, values, transform) => run(text, values, transform),
    executeUnprepared: (text, values, transform) => run(text, values, transform, false),
    executeRaw: (text, values) => session.query(text, values),
    executeValues: (text, values) => session.queryValues(text, values),
    executeValuesUnprepared: (text, values) => session.queryValues(text, values, false),
    executeStream: (text, values, transform) =>
      transform === undefined
        ? session.stream(text, values)
        // A transformation keeps the number of rows, which its type does not say.
        : Stream.mapArray(session.stream(text, values), (rows) => transform(rows) as typeof rows)
  }
}

/** Span attributes that identify the database, named by OpenTelemetry's conventions. */
const spanAttributesOf = (url: Redacted.Redacted): ReadonlyArray<readonly [string, unknown]> => {
  const { hostname, pathname, port, username } = new URL(Redacted.value(url))
  return [
    ["db.system.name", "postgresql"],
    ["db.namespace", decodeURIComponent(pathname.slice(1) || username)],
    ["server.address", hostname || "localhost"],
    ["server.port", Number(port || 5432)]
  ]
}

const make = Effect.fnUntraced(function*(options: Options) {
  const sockets = yield* DatabaseSockets
  const gate = yield* AdmissionGate.make(options.maxConnections * multiplexConcurrency)
  const pool = yield* PgPool.make({ ...options, multiplex: true, multiplexConcurrency, stream: sockets.open })
  yield* DatabaseMonitor.monitor(options, sockets, gate)
  const client = yield* SqlClient.make({
    acquirer: Effect.map(pool.get, adapt),
    borrower: (use) => gate.admit(pool.use((session) => use(adapt(session)))),
    transactionAcquirer: Effect.map(pool.reserve, adapt),
    compiler: PgClient.makeCompiler(),
    driver: "pg",
    spanAttributes: spanAttributesOf(options.url)
  })
  return Context.make(SqlClient.SqlClient, client).pipe(Context.add(PgPool.PgPool, pool))
})

/** Also provides the pool itself, because LISTEN occupies a session for its whole duration. */
export const layer = (options: Options) => Layer.effectContext(make(options)).pipe(Layer.provide(Reactivity.layer))
