/** Retries and fault logging for background work during outages of the store. */
import { Cause, Effect, Predicate, Schema } from "effect"
import { SqlError } from "effect/sql"
import * as Backoff from "../../domain/Backoff.ts"

class StoreFault extends Schema.TaggedError<StoreFault>()("StoreFault", { defect: Schema.Defect() }) {}

/** SQLSTATEs of a server that shuts down, starts up or has no free connection. */
const isServerState = (cause: unknown) =>
  Predicate.hasProperty(cause, "code") && Predicate.isString(cause.code) && /^(57P0[1-3]|53300)$/.test(cause.code)

/** The database is unreachable. A statement in flight may or may not have taken effect. */
export const isStoreUnavailable = (failure: unknown) =>
  SqlError.isSqlError(failure) &&
  (Predicate.isTagged(failure.reason, "ConnectionError") || isServerState(failure.reason.cause))

/** Logs a fault that a background loop survives. An outage of the store is only a debug line, because it is logged elsewhere once. */
export const logFault = (message: string) => (cause: Cause.Cause<unknown>): Effect.Effect<void> =>
  isStoreUnavailable(Cause.squash(cause))
    ? Effect.logDebug(`${message}: the store is unavailable`)
    : Effect.logWarning(message, cause)

const storeRetry = Backoff.schedule("100 millis", "2 seconds")

/** Retries with exponential backoff up to two seconds, until the store responds. */
export const retryForever = <A>(effect: Effect.Effect<A>): Effect.Effect<A> =>
  effect.pipe(
    Effect.catchDefect((defect) => Effect.fail(new StoreFault({ defect }))),
    Effect.tapError(({ defect }) => logFault("the store does not respond")(Cause.die(defect))),
    Effect.retry(storeRetry),
    Effect.orDie
  )
