/**
 * The service's SQL client: the driver's connection pool behind an admission gate, which a monitor closes while the database
 * is unavailable. A statement of the service is one round trip. Migrations have their own client.
 */
import { PgClient, type PgConnection, PgPool } from "@effect/sql-pg"
import { Context, Duration, Effect, Layer, Stream } from "effect"
import { Reactivity } from "effect/reactivity"
import { SqlClient, type SqlConnection, SqlError } from "effect/sql"
import { StoreHealth } from "../../services/store/StoreHealth.ts"
import * as Worker from "../../services/timing/Worker.ts"
import * as AdmissionGate from "./AdmissionGate.ts"
import * as DatabaseMonitor from "./DatabaseMonitor.ts"
import { DatabaseSockets } from "./DatabaseSockets.ts"

export interface Options extends PgConnection.Config {
  /** Beside the one for LISTEN. */
  readonly maxConnections: number
  /** Options of the sessions for LISTEN, if not those of the pool. */
  readonly listener?: PgConnection.Config | undefined
  /** A statement that needs what writes need. It is repeated during a shortage, to notice its end. */
  readonly probe?: string
}

/** The failures of many clients do not shorten it. */
const probeInterval = Duration.millis(500)

/** Pipelined statements of one connection. The driver's default of 32 halves the throughput of inserts. */
const multiplexConcurrency = 5

type TransformRows = Parameters<SqlConnection.Connection["execute"]>[2]

type Monitor = Effect.Success<ReturnType<typeof DatabaseMonitor.monitor>>
type Observer = Pick<Monitor, "observe" | "onSuccess">

const unobserved: Observer = { observe: () => {}, onSuccess: () => {} }

/** Adapts the driver's session to `effect/sql`; the driver does not export its own adapter. The observer sees how statements end. */
export const adapt = (
  session: PgConnection.PgConnection,
  { observe, onSuccess }: Observer = unobserved
): SqlConnection.Connection => {
  const run = (text: string, values: ReadonlyArray<unknown>, transform: TransformRows, prepare?: boolean) =>
    Effect.matchEffect(session.query(text, values, prepare), {
      onSuccess: ({ rows }) => {
        onSuccess(text)
        return Effect.succeed(transform === undefined ? rows : transform(rows))
      },
      onFailure: (failure) => {
        observe(failure, text)
        return Effect.fail(failure)
      }
    })
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
const spanAttributesOf = ({ database, host, port, username }: Options): ReadonlyArray<readonly [string, unknown]> => [
  ["db.system.name", "postgresql"],
  ["db.namespace", database ?? username],
  ["server.address", host],
  ["server.port", port]
]

const make = Effect.fnUntraced(function*(options: Options) {
  const sockets = yield* DatabaseSockets
  const gate = yield* AdmissionGate.make(options.maxConnections * multiplexConcurrency)
  const pool = yield* PgPool.make({ ...options, multiplex: true, multiplexConcurrency, stream: sockets.open })
  /** Reports that the pool opened no connection. */
  const observed = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
    Effect.tapError(effect, (error) =>
      Effect.sync(() => {
        if (SqlError.isSqlError(error) && error.reason.operation === "connect") monitor.observe(error, "")
      }))
  const monitor = yield* DatabaseMonitor.monitor(options, sockets, gate, options.probe)
  const adapted = (session: PgConnection.PgConnection) => adapt(session, monitor)
  const client = yield* SqlClient.make({
    acquirer: Effect.map(pool.get, adapted),
    borrower: (statement) =>
      Effect.suspend(() => {
        let leftover: Effect.Effect<void> | undefined
        const run = pool.use((session) =>
          Effect.onInterrupt(statement(adapted(session)), () =>
            Effect.sync(() => {
              // A session answers in the order of its statements.
              leftover = Effect.ignore(session.query("SELECT", [], false))
            }))
        )
        return gate.admit(observed(run), () => leftover)
      }),
    transactionAcquirer: Effect.map(observed(pool.reserve), adapted),
    compiler: PgClient.makeCompiler(),
    driver: "pg",
    spanAttributes: spanAttributesOf(options)
  })
  const { probe } = options
  if (probe !== undefined) {
    yield* Worker.make({
      name: "the probe of the database",
      runOnce: Effect.gen(function*() {
        while (monitor.isProbed()) {
          yield* Effect.ignore(client.unsafe(probe))
          yield* Effect.sleep(probeInterval)
        }
      }),
      interval: Duration.infinity,
      wake: monitor.needsProbe
    })
  }
  const listeners = yield* PgPool.make({
    ...options.listener ?? { ...options, stream: sockets.open },
    maxConnections: 1
  })
  return Context.make(SqlClient.SqlClient, client).pipe(
    Context.add(PgPool.PgPool, listeners),
    Context.add(StoreHealth, { problem: monitor.problem, roundTrip: sockets.patience.roundTrip })
  )
})

/**
 * Also provides a pool for LISTEN, which occupies a session for its whole duration. One of the pool for statements would often be
 * the first after an outage, and requests would wait for another login.
 */
export const layer = (options: Options) => Layer.effectContext(make(options)).pipe(Layer.provide(Reactivity.layer))
