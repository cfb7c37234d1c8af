/**
 * Detects within a second that the database is unavailable, or available again, by a heartbeat on a separate connection. It
 * is unavailable when a connection cannot be opened, or when a heartbeat gets no response while no other socket receives
 * anything. Only the monitor reconnects then, so that a starting database is not overloaded.
 */
import { PgConnection } from "@effect/sql-pg"
import { Deferred, Duration, Effect, Option, Predicate, Schema } from "effect"
import { SqlError } from "effect/sql"
import * as Metrics from "../../services/telemetry/Metrics.ts"
import * as Worker from "../../services/timing/Worker.ts"
import { rootCauseMessage } from "../ErrorMessages.ts"
import type { AdmissionGate } from "./AdmissionGate.ts"
import type { DatabaseSockets } from "./DatabaseSockets.ts"

const heartbeatInterval = Duration.millis(300)
const retryInterval = Duration.millis(100)
const logInterval = Duration.toMillis("10 seconds")
const timeoutStep = Duration.millis(100)
const timeoutSteps = 5

class Silent extends Schema.TaggedError<Silent>()("Silent", { message: Schema.String }) {}

/**
 * Fails after five short sleeps instead of one long sleep. When a suspended process continues, the first sleep has expired,
 * but a response that arrived meanwhile is read before the second one.
 */
const withTimeout = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
  Effect.raceFirst(
    effect,
    Effect.repeat(Effect.sleep(timeoutStep), { times: timeoutSteps - 1 }).pipe(
      Effect.andThen(Effect.fail(new Silent({ message: "it does not answer" })))
    )
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
    const connection = yield* withTimeout(PgConnection.make({ ...options, multiplex: true, stream: () => socket }))
    yield* open
    for (;;) {
      const isClosed = yield* Effect.raceFirst(
        Effect.as(Effect.sleep(heartbeatInterval), false),
        Effect.as(Deferred.await(closed), true)
      )
      // The database may still be up: the next connection shows whether it is.
      if (isClosed) return
      const before = sockets.received()
      const failed = yield* Effect.option(Effect.flip(withTimeout(connection.query("SELECT"))))
      if (Option.isNone(failed)) continue
      if (!(failed.value instanceof Silent) || sockets.received() !== before) return
      return yield* Effect.fail(failed.value)
    }
  }))

  yield* Worker.make({
    name: "the database monitor",
    runOnce: Effect.catch(session, (failure) => isServerError(failure) ? open : close(failure)),
    interval: retryInterval
  })
})
