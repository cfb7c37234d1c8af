/**
 * Detects within a second that the database is unavailable, or available again, by a heartbeat on a separate connection.
 * The database is unavailable when
 * - no connection can be opened, unless the server sends an error that may pass, as when connections are short,
 * - the first statement of new connections fails, twice in a row,
 * - it refuses writes, or
 * - a login or a heartbeat gets no response while no socket receives anything. While others do, only the monitor's own
 *   connection is replaced.
 *
 * Then only the monitor reconnects, to one host after the other, so that a starting database is not overloaded, until a
 * heartbeat gets a response.
 */
import { PgConnection } from "@effect/sql-pg"
import { Deferred, Duration, Effect, Option, Predicate, Result, Schema } from "effect"
import { SqlError } from "effect/sql"
import * as Metrics from "../../services/telemetry/Metrics.ts"
import * as OutageLog from "../../services/telemetry/OutageLog.ts"
import { rootCauseMessage } from "../../services/telemetry/RootCause.ts"
import * as Worker from "../../services/timing/Worker.ts"
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

/** The SQLSTATE of a write that a read-only database refused. */
const readOnly = "25006"

/** Shortages by the SQLSTATE of a failed statement. A heartbeat does not detect them. */
const shortages: ReadonlyMap<unknown, string> = new Map([
  ["53100", "has a full disk"],
  ["53200", "is out of memory"],
  ["53300", "has no free connection"]
])

/** Milliseconds for which a shortage counts after a statement that found it. */
const shortageFor = 15_000

/** Reasons for which the server refuses every new connection, by SQLSTATE. */
const refusals: ReadonlyMap<unknown, string> = new Map([
  ["28000", "refuses the login"],
  ["28P01", "refuses the login"],
  ["3D000", "does not exist"],
  ["42501", "refuses the login"],
  ["55000", "accepts no connections"]
])

/** The first statement of new connections failed, twice in a row: a pooler opens connections while its server is away. */
class Unanswered extends Schema.TaggedError<Unanswered>()("Unanswered", { message: Schema.String }) {}

class ReadOnly extends Schema.TaggedError<ReadOnly>()("ReadOnly", { message: Schema.String }) {}

const refusesWrites = new ReadOnly({ message: "it is read-only" })

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
        if (silent === maxSilentSteps) return yield* new Silent({ message: "it does not answer" })
        before = now
      }
      return Option.none<A>()
    })
  )

const codeOf = (failure: unknown) =>
  SqlError.isSqlError(failure) && Predicate.hasProperty(failure.reason.cause, "code")
    ? failure.reason.cause.code
    : undefined

/**
 * Whether the server sent the error and may work for others. 57P01 to 57P03 report that it starts or stops. Every SQLSTATE has a
 * digit; Node's codes, such as EPERM, have none.
 */
const isUp = (failure: unknown) =>
  /^(?!57P0)(?=.*\d)[0-9A-Z]{5}$/.test(String(codeOf(failure))) && !refusals.has(codeOf(failure))

const isShortage = (failure: unknown) => String(codeOf(failure)).startsWith("53")

/** The messages of other failures may name the database's address or the role. */
const reasonOf = (failure: unknown) =>
  failure instanceof ReadOnly
    ? "is read-only"
    : shortages.get(codeOf(failure)) ?? refusals.get(codeOf(failure)) ?? "does not answer"

/**
 * One connection with its heartbeats; `onAnswer` runs after each, `onFirstFailure` if the first one fails. Ends when the connection
 * closes, fails when the database is unavailable. `onOpen` receives a function that ends the session with a failure.
 */
const runSession = (
  options: PgConnection.Config,
  sockets: DatabaseSockets["Service"],
  onAnswer: Effect.Effect<void>,
  onFirstFailure: (failure: SqlError.SqlError) => Effect.Effect<void, Unanswered>,
  onOpen: (end: (failure: ReadOnly) => void) => void
) =>
  Effect.scoped(Effect.gen(function*() {
    const socket = sockets.openUnguarded()
    const closed = Deferred.makeUnsafe<void, ReadOnly>()
    onOpen((failure) => Deferred.doneUnsafe(closed, Effect.fail(failure)))
    socket.once("close", () => Deferred.doneUnsafe(closed, Effect.void))
    yield* Effect.addFinalizer(() => Effect.sync(() => socket.destroy()))
    // A login takes several messages, and may be the only thing that the database does for this node.
    const received = () => sockets.received() + socket.bytesRead
    // Multiplexed, because the driver opens another connection to cancel an interrupted statement otherwise.
    const opening = PgConnection.make({ ...options, multiplex: true, stream: () => socket })
    const connection = yield* whileAnswering(opening, received)
    if (Option.isNone(connection)) return
    for (let heartbeats = 0;; heartbeats++) {
      const heartbeat = Effect.result(connection.value.query("SHOW transaction_read_only"))
      const answer = yield* whileAnswering(heartbeat, received)
      if (Option.isNone(answer)) return
      if (Result.isFailure(answer.value)) {
        return heartbeats === 0
          ? yield* onFirstFailure(answer.value.failure)
          : undefined
      }
      if (answer.value.success.rows[0]?.["transaction_read_only"] === "on") return yield* refusesWrites
      yield* onAnswer
      const isClosed = Option.isSome(yield* Effect.timeoutOption(Deferred.await(closed), heartbeatInterval))
      // The database may still be up: the next connection shows whether it is.
      if (isClosed) return
    }
  }))

/** Logs why a statement failed that the database could not run although it answers heartbeats. */
const makeFailureLog = () => {
  const logOutage = OutageLog.make()
  let noted: SqlError.SqlError | undefined
  const discard = () => {
    noted = undefined
  }
  return {
    note: (failure: SqlError.SqlError) => {
      noted = failure
    },
    discard,
    log: Effect.suspend(() => {
      if (noted === undefined) return Effect.void
      const reason = rootCauseMessage(noted)
      discard()
      return logOutage(`The database answers, but statements fail: ${reason}. Their requests get 503`)
    })
  }
}

/** Starts the monitor. `options` are those of the pool's connections. Returns its view of the database, and what reports the ends of statements. */
export const monitor = Effect.fnUntraced(function*(
  options: PgConnection.Config,
  sockets: DatabaseSockets["Service"],
  gate: AdmissionGate
) {
  let unavailableSince: number | undefined
  let unavailableReason = ""
  let shortage: { readonly problem: string; readonly until: number } | undefined
  /** Why a statement got no connection, until one succeeds. */
  let refusal: string | undefined
  let endSession: (failure: ReadOnly) => void = () => {}
  let loggedAt = 0
  const failing = makeFailureLog()

  /** Why the database cannot do its work; null while it can. */
  const problem = () => {
    if (unavailableSince !== undefined) return unavailableReason
    return shortage !== undefined && performance.now() < shortage.until ? shortage.problem : refusal ?? null
  }
  yield* Metrics.databaseAvailable.observe(() => problem() === null ? 1 : 0)

  const close = (failure: unknown) =>
    Effect.suspend(() => {
      const now = performance.now()
      const reason = rootCauseMessage(failure)
      unavailableReason = reasonOf(failure)
      gate.close()
      sockets.rotate()
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
    refusal = undefined
    failing.discard()
    sockets.allow()
    gate.open()
    return Effect.logInfo(`The database is back after ${seconds.toFixed(1)} s`)
  })

  let unanswered = 0
  const onAnswer = Effect.andThen(Effect.sync(() => void (unanswered = 0)), Effect.andThen(open, failing.log))
  const onFirstFailure = (failure: SqlError.SqlError) =>
    Effect.suspend(() =>
      isShortage(failure) || ++unanswered < 2
        ? Effect.void
        : Effect.fail(new Unanswered({ message: rootCauseMessage(failure) }))
    )

  const session = runSession(options, sockets, onAnswer, onFirstFailure, (end) => {
    endSession = end
  })
  yield* Worker.make({
    name: "the database monitor",
    // A login that fails never ends an outage.
    runOnce: Effect.catch(
      session,
      (failure) => unavailableSince === undefined && isUp(failure) ? failing.log : close(failure)
    ),
    interval: retryInterval
  })

  return {
    /** Notes the failure of a statement. One that was refused as a write ends all connections. */
    observe: (failure: SqlError.SqlError) => {
      const code = codeOf(failure)
      if (code === readOnly) endSession(refusesWrites)
      const isRefused = failure.reason.operation === "connect"
      const lack = shortages.get(code)
      if (lack !== undefined || isRefused) failing.note(failure)
      if (lack !== undefined) shortage = { problem: lack, until: performance.now() + shortageFor }
      else if (isRefused) refusal = reasonOf(failure)
    },
    onSuccess: Effect.sync(() => {
      refusal = undefined
    }),
    problem
  }
})
