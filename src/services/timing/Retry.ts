/** Retries and fault logging for background work during outages of the store. */
import { Cause, Effect } from "effect"
import * as Backoff from "../../domain/Backoff.ts"
import { StoreUnavailable } from "../../domain/StoreUnavailable.ts"

/** Logs a fault that a background loop survives. An outage of the store is only a debug line, because it is logged elsewhere once. */
export const logFault = (message: string) => (cause: Cause.Cause<unknown>): Effect.Effect<void> =>
  Cause.squash(cause) instanceof StoreUnavailable
    ? Effect.logDebug(`${message}: the store is unavailable`)
    : Effect.logWarning(message, cause)

const storeRetry = Backoff.schedule("100 millis", "2 seconds")

/** Retries with exponential backoff up to two seconds, until the store responds. A defect is retried too, so that no loop ends. */
export const retryForever = <A, R>(effect: Effect.Effect<A, StoreUnavailable, R>): Effect.Effect<A, never, R> =>
  effect.pipe(
    Effect.tapCauseIf((cause) => !Cause.hasInterrupts(cause), logFault("the store does not respond")),
    Effect.catchDefect(Effect.fail),
    Effect.retry(storeRetry),
    Effect.orDie
  )
