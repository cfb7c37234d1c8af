/**
 * The service's SQL client: the driver's connection pool behind an admission gate, which a monitor closes while the database
 * is unavailable. A statement of the service is one round trip, except one with long texts, which has a transaction. Migrations have
 * their own client.
 */
import { PgClient, type PgConnection, PgPool } from "@effect/sql-pg"
import { Context, Duration, Effect, Layer, Option, Semaphore, Stream } from "effect"
import { Reactivity } from "effect/reactivity"
import { SqlClient, type SqlConnection, SqlError } from "effect/sql"
import { StoreHealth } from "../../services/store/StoreHealth.ts"
import * as Worker from "../../services/timing/Worker.ts"
import * as AdmissionGate from "./AdmissionGate.ts"
import * as DatabaseMonitor from "./DatabaseMonitor.ts"
import type { Spare } from "./DatabaseSession.ts"
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

/**
 * After an outage statements use the spare connection of the monitor until the pool has logged in, or failed to: five at a time, as on each
 * connection of the pool. Others wait for the pool. `connect` opens a connection of the pool.
 */
const withSpare = (pool: PgPool.PgPool, { guard }: DatabaseSockets["Service"], connect: Effect.Effect<void>) =>
  Effect.map(Effect.scope, (scope) => {
    let loan: { readonly connection: PgConnection.PgConnection; readonly permits: Semaphore.Semaphore } | undefined
    return {
      /** `open` ends the outage: the statements that it admits find the spare connection. */
      lend: (spare: Spare, open: Effect.Effect<void>) =>
        Effect.suspend(() => {
          const lent = { connection: spare.connection, permits: Semaphore.makeUnsafe(multiplexConcurrency) }
          loan = lent
          const end = Effect.suspend(() => {
            if (loan === lent) loan = undefined
            // Waits for the statements on the connection.
            return lent.permits.take(multiplexConcurrency)
          })
          const run = Effect.raceFirst(connect, spare.closed).pipe(
            Effect.ignore,
            Effect.andThen(end),
            Effect.ensuring(spare.close)
          )
          return open.pipe(
            Effect.andThen(Effect.sync(() => guard(spare.socket))),
            Effect.andThen(Effect.forkIn(run, scope))
          )
        }),
      use: <A, E, R>(statement: (session: PgConnection.PgConnection) => Effect.Effect<A, E, R>) =>
        Effect.suspend(() =>
          loan === undefined
            ? pool.use(statement)
            : Effect.flatMap(
              loan.permits.withPermitsIfAvailable(1)(statement(loan.connection)),
              Option.match({ onNone: () => pool.use(statement), onSome: Effect.succeed })
            )
        )
    }
  })

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
  const { lend, use } = yield* withSpare(pool, sockets, Effect.ignore(observed(pool.use(() => Effect.void))))
  const monitor = yield* DatabaseMonitor.monitor(options, sockets, gate, lend, options.probe)
  const adapted = (session: PgConnection.PgConnection) => adapt(session, monitor)
  const client = yield* SqlClient.make({
    acquirer: Effect.map(pool.get, adapted),
    borrower: (statement) =>
      Effect.suspend(() => {
        let leftover: Effect.Effect<void> | undefined
        const run = use((session) =>
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
