/** How often a run is offered to the core, and how soon again (CONTRACT 4). */
import { Duration, Effect, Schedule, Schema } from "effect"

/** The core did not take the call: it may be tried again. */
export class CoreUnavailable extends Schema.TaggedError<CoreUnavailable>()("CoreUnavailable", {
  reason: Schema.String,
  /** The core's `Retry-After`. */
  retryAfter: Schema.NullOr(Schema.Duration)
}) {}

/** The core will not take this call, however often it is made. */
export class CoreRefused extends Schema.TaggedError<CoreRefused>()("CoreRefused", { status: Schema.Int }) {}

/** Statuses that ask for another try; any other outside of 2xx is a refusal. */
export const isRetryableStatus = (status: number): boolean => status === 408 || status === 429 || status >= 500

/** From 200 ms, doubling up to 5 s, spread by a fifth so that a returning core is not stormed. */
const backoff = Schedule.min([Schedule.exponential("200 millis"), Schedule.spaced("5 seconds")]).pipe(
  Schedule.jittered
)

/** The back-off, or the core's `Retry-After` where that is longer. It goes on for as long as the run is wanted. */
export const schedule = backoff.pipe(
  Schedule.setInputType<CoreUnavailable>(),
  Schedule.modifyDelay(({ duration, input }) =>
    Effect.succeed(input.retryAfter === null ? duration : Duration.max(duration, input.retryAfter))
  )
)

/** A stop is owed until it is delivered: from 1 s, doubling up to a minute. */
export const stopDelay = (attempt: number): Duration.Duration => Duration.seconds(Math.min(60, 2 ** (attempt - 1)))
