/** Retries and fault logging for background work during outages of the store. */
import { Cause, Duration, Effect } from "effect"
import * as Backoff from "../../domain/Backoff.ts"
import { StoreUnavailable } from "../../domain/StoreUnavailable.ts"

/** Logs a fault that a background loop survives. An outage of the store is only a debug line, because it is logged elsewhere once. */
export const logFault = (message: string) => (cause: Cause.Cause<unknown>): Effect.Effect<void> =>
  Cause.squash(cause) instanceof StoreUnavailable
    ? Effect.logDebug(`${message}: the store is unavailable`)
    : Effect.logWarning(message, cause)

/** The 1st, 2nd, 4th, 8th and so on of failures in a row are logged. */
export const isLogged = (failures: number): boolean => Number.isInteger(Math.log2(failures))

const firstDelay = Duration.millis(100)
const longestDelay = Duration.seconds(2)
/** A defect, as a row that cannot be read, seldom ends by itself. */
const longestAfterDefect = Duration.minutes(1)

/**
 * Retries with exponential backoff until the store responds. A defect is retried too, so that no loop ends, but up to once a minute,
 * and is logged as an error.
 */
export const retryForever = <A, R>(effect: Effect.Effect<A, StoreUnavailable, R>): Effect.Effect<A, never, R> =>
  Effect.suspend(() => {
    let failures = 0
    let defects = 0
    const again = (cause: Cause.Cause<StoreUnavailable>): Effect.Effect<A, never, R> => {
      if (Cause.hasInterrupts(cause)) return Effect.orDie(Effect.failCause(cause))
      const isDefect = Cause.hasDies(cause)
      const delay = Backoff.delayAfter(failures++, firstDelay, isDefect ? longestAfterDefect : longestDelay)
      const log = !isDefect
        ? logFault("the store does not respond")(cause)
        : isLogged(++defects)
        ? Effect.logError(`a statement failed by a defect ${defects} times and is retried`, cause)
        : Effect.void
      return Effect.andThen(log, Effect.andThen(Effect.sleep(delay), attempt))
    }
    const attempt: Effect.Effect<A, never, R> = Effect.catchCause(effect, again)
    return attempt
  })
