/** What must reach the store, however long it is away. */
import { Cause, Effect, Predicate, Schedule, Schema } from "effect"
import { SqlError } from "effect/sql"

class StoreFault extends Schema.TaggedError<StoreFault>()("StoreFault", { defect: Schema.Defect() }) {}

/** SQLSTATEs of a server that goes down, comes up, or is full. */
const isServerState = (cause: unknown) =>
  Predicate.hasProperty(cause, "code") && Predicate.isString(cause.code) && /^(57P0[1-3]|53300)$/.test(cause.code)

/** The database cannot be reached; whether a statement under way took effect is not known. */
export const isStoreUnavailable = (failure: unknown) =>
  SqlError.isSqlError(failure) &&
  (Predicate.isTagged(failure.reason, "ConnectionError") || isServerState(failure.reason.cause))

/** Logs what a background loop goes on after. An outage of the store is logged elsewhere, once. */
export const logFault = (message: string) => (cause: Cause.Cause<unknown>): Effect.Effect<void> =>
  isStoreUnavailable(Cause.squash(cause))
    ? Effect.logDebug(`${message}: the store is away`)
    : Effect.logWarning(message, cause)

const storeRetry = Schedule.min([Schedule.exponential("100 millis"), Schedule.spaced("2 seconds")])

/** Tries again, soon and then every two seconds, for as long as the store does not answer. */
export const retryForever = <A>(effect: Effect.Effect<A>): Effect.Effect<A> =>
  effect.pipe(
    Effect.catchDefect((defect) => Effect.fail(new StoreFault({ defect }))),
    Effect.tapError(({ defect }) => logFault("the store does not answer")(Cause.die(defect))),
    Effect.retry(storeRetry),
    Effect.orDie
  )
