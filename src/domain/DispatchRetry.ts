/** The retry schedule of calls to the core: dispatch of a run, and stop of a run. */
import { Duration, Effect, Schedule, Schema } from "effect"
import * as Backoff from "./Backoff.ts"

/** The core could not be reached or is overloaded. The call may be retried. */
export class CoreUnavailable extends Schema.TaggedError<CoreUnavailable>()("CoreUnavailable", {
  reason: Schema.String,
  /** From the core's `Retry-After` header. */
  retryAfter: Schema.NullOr(Schema.Duration)
}) {}

/** The core refused the call for good. A retry would be refused too. */
export class CoreRefused extends Schema.TaggedError<CoreRefused>()("CoreRefused", { status: Schema.Int }) {}

/** Whether a status other than 2xx may be retried. Any other one is a refusal. */
export const isRetryableStatus = (status: number): boolean => status === 408 || status === 429 || status >= 500

/** From 200 ms, doubling up to 5 s, with 20 % jitter so that nodes do not all call a recovered core together. */
const backoff = Schedule.jittered(Backoff.schedule("200 millis", "5 seconds"))

/**
 * The backoff, or the core's `Retry-After` where that is longer. It never ends: the task's deadlines end the retries.
 */
export const schedule = backoff.pipe(
  Schedule.setInputType<CoreUnavailable>(),
  Schedule.modifyDelay(({ duration, input }) =>
    Effect.succeed(input.retryAfter === null ? duration : Duration.max(duration, input.retryAfter))
  )
)

/** The delay after failed attempt `attempt` (from 1) to stop a run: from 1 s, doubling up to 60 s, without an end. */
export const stopDelay = (attempt: number): Duration.Duration =>
  Backoff.delayAfter(attempt - 1, Duration.seconds(1), Duration.seconds(60))
