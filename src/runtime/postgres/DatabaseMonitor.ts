/**
 * Detects within a second that the database is unavailable, or available again, by a heartbeat on a separate connection. It
 * is unavailable when a connection cannot be opened, or when a heartbeat gets no response while no other socket receives
 * anything. Only the monitor reconnects then, so that a starting database is not overloaded.
 */
import { PgConnection } from "@effect/sql-pg"
import { Deferred, Duration, Effect, Option, Predicate, Result, Schema } from "effect"
import { SqlError } from "effect/sql"
import * as Metrics from "../../services/telemetry/Metrics.ts"
import * as Worker from "../../services/timing/Worker.ts"
import { rootCauseMessage } from "../ErrorMessages.ts"
import type { AdmissionGate } from "./AdmissionGate.ts"
import type { DatabaseSockets } from "./DatabaseSockets.ts"

const heartbeatInterval = Duration.millis(200)
const retryInterval = Duration.millis(100)
const logInterval = Duration.toMillis("10 seconds")
const step = Duration.millis(100)
/** Steps without a byte from the database after which it is unavailable. */
const maxSilentSteps = 5
/** Steps after which the monitor replaces its connection although other connections receive something. */
const maxSteps = 20

class Silent extends Schema.TaggedError<Silent>()("Silent", { message: Schema.String }) {}

/**
 * Runs `effect` until the database has been silent for half a second, which is an error, or for at most two seconds. Silence
 * is counted in short sleeps: when a suspended process continues, the first sleep has expired, but a response that arrived
 * meanwhile is read before the second one.
 */
export const whileAnswering = <A, E, R>(effect: Effect.Effect<A, E, R>, received: () => number) =>
  Effect.raceFirst(
    Effect.asSome(effect),
    Effect.gen(function*() {
      let before = received()
      for (let steps = 0, silent = 0; steps < maxSteps; steps++) {
        yield* Effect.sleep(step)
        const now = received()
        silent = now === before ? silent + 1 : 0
        if (silent === maxSilentSteps) return yield* Effect.fail(new Silent({ message: "it does not answer" }))
        before = now
      }
      return Option.none<A>()
    })
  )

/** Whether the server itself sent the error, which shows that it is up. 57P01 to 57P03 report that it starts or stops. */
const isServerError = (failure: unknown) =>
  SqlError.isSqlError(failure) && Predicate.hasProperty(failure.reason.cause, "code") &&
  Predicate.isString(failure.reason.cause.code) && /^(?!57P0)[0-9A-Z]{5}$/.test(failure.reason.cause.code)

/** Starts the monitor. `options` are those of the pool's connections. */
export const monitor = Effect.fnUntraced(function*(
  options: PgConnection.Config,
  sockets: DatabaseSockets["Service"],
  gate: AdmissionGate
) {
  let unavailableSince: number | undefined
  let loggedAt = 0
  yield* Metrics.databaseAvailable.observe(() => unavailableSince === undefined ? 1 : 0)

  const close = (failure: unknown) =>
    Effect.suspend(() => {
      const now = performance.now()
      const reason = rootCauseMessage(failure)
      gate.close()
      sockets.refuse(`The database is unavailable: ${reason}`)
      const isFirst = unavailableSince === undefined
      const since = unavailableSince ??= now
      if (!isFirst && now - loggedAt < logInterval) return Effect.void
      loggedAt = now
      return isFirst
        ? Effect.logError(`The database is unavailable: ${reason}. Requests get 503 until it is back`)
        : Effect.logError(`The database is still unavailable after ${Math.round((now - since) / 1000)} s: ${reason}`)
    })

  const open = Effect.suspend(() => {
    if (unavailableSince === undefined) return Effect.void
    const seconds = (performance.now() - unavailableSince) / 1000
    unavailableSince = undefined
    sockets.allow()
    gate.open()
    return Effect.logInfo(`The database is back after ${seconds.toFixed(1)} s`)
  })

  /** One connection with its heartbeats. Ends when the connection closes, fails when the database is unavailable. */
  const session = Effect.scoped(Effect.gen(function*() {
    const socket = sockets.openUnguarded()
    const closed = Deferred.makeUnsafe<void>()
    socket.once("close", () => Deferred.doneUnsafe(closed, Effect.void))
    yield* Effect.addFinalizer(() => Effect.sync(() => socket.destroy()))
    // Multiplexed, because the driver opens another connection to cancel an interrupted statement otherwise.
    const opening = PgConnection.make({ ...options, multiplex: true, stream: () => socket })
    const connection = yield* whileAnswering(opening, sockets.received)
    if (Option.isNone(connection)) return
    yield* open
    for (;;) {
      const isClosed = yield* Effect.raceFirst(
        Effect.as(Effect.sleep(heartbeatInterval), false),
        Effect.as(Deferred.await(closed), true)
      )
      // The database may still be up: the next connection shows whether it is.
      if (isClosed) return
      const heartbeat = Effect.result(connection.value.query("SELECT"))
      const answer = yield* whileAnswering(heartbeat, sockets.received)
      if (Option.isNone(answer) || Result.isFailure(answer.value)) return
    }
  }))

  yield* Worker.make({
    name: "the database monitor",
    runOnce: Effect.catch(session, (failure) => isServerError(failure) ? open : close(failure)),
    interval: retryInterval
  })
})
