/** The retry schedule of calls to the core: dispatch of a run, and stop of a run. */
import { Duration, Effect, Schedule, Schema } from "effect"
import * as Backoff from "./Backoff.ts"

/** The core could not be reached, or what it made of the call is unknown. The call may be retried. */
export class CoreUnavailable extends Schema.TaggedError<CoreUnavailable>()("CoreUnavailable", {
  reason: Schema.String,
  /** From the core's `Retry-After` header. */
  retryAfter: Schema.NullOr(Schema.Duration)
}) {}

/** The core refused the call for good. A retry would be refused too. */
export class CoreRefused extends Schema.TaggedError<CoreRefused>()("CoreRefused", { status: Schema.Int }) {}

/** The core has no room for the run, and has not taken it. */
export class CoreHasNoRoom extends Schema.TaggedError<CoreHasNoRoom>()("CoreHasNoRoom", {
  status: Schema.Int,
  /** From the core's `Retry-After` header. */
  retryAfter: Schema.NullOr(Schema.Duration)
}) {}

/** A core without room whose call is retried nevertheless: it may have taken the run before. */
export const unavailable = ({ retryAfter, status }: CoreHasNoRoom) =>
  new CoreUnavailable({ reason: `status ${status}`, retryAfter })

/** Whether the answer to a start says so. 503 without `Retry-After` may come from anything between. */
export const saysNoRoom = (status: number, retryAfter: Duration.Duration | null): boolean =>
  status === 429 || (status === 503 && retryAfter !== null)

/** Whether a status other than 2xx may be retried. Any other one is a refusal. */
export const isRetryableStatus = (status: number): boolean =>
  status === 408 || status === 429 || (status >= 500 && status <= 599)

/** From 200 ms, doubling up to 5 s, with 20 % jitter so that nodes do not all call a recovered core together. */
const backoff = Schedule.jittered(Backoff.schedule("200 millis", "5 seconds"))

/** A longer `Retry-After` counts as this: the core is asked again. */
export const longestRetryAfter = Duration.minutes(1)

/**
 * The backoff, or the core's `Retry-After` where that is longer. It never ends: the task's deadlines end the retries.
 */
export const schedule = backoff.pipe(
  Schedule.setInputType<CoreUnavailable>(),
  Schedule.modifyDelay(({ duration, input: { retryAfter } }) =>
    Effect.succeed(retryAfter === null ? duration : Duration.max(duration, Duration.min(retryAfter, longestRetryAfter)))
  )
)

/** Leaves the core time to report that it has begun: the last attempt comes this long before the deadline. */
const lastAttempt = Duration.seconds(2)

/**
 * The pause before the next attempt, of which the schedule `wanted` a longer one, when the deadline is `left` away: the last attempt
 * uses the time that is left.
 */
export const pauseWithin = (wanted: Duration.Duration, left: Duration.Duration) => {
  const longest = Duration.subtract(left, Duration.min(lastAttempt, Duration.times(left, 0.25)))
  return Duration.isLessThan(wanted, longest) ? { pause: wanted, isLast: false } : { pause: longest, isLast: true }
}

/** A number of seconds, which the standard does not limit. */
const isSeconds = (text: string) => /^\d+(\.\d+)?$/.test(text)
/** A date as HTTP has it begins with a day. `Date` reads many other texts as some date. */
const isDate = (text: string) => /^(Mon|Tues?|Wed(nes)?|Thu(rs)?|Fri|Sat(ur)?|Sun)(day)?,? /.test(text)

/** Reads `Retry-After`, given in seconds or as an HTTP date; null for anything else. */
export const parseRetryAfter = (text: string, nowMillis: number): Duration.Duration | null => {
  const millis = isSeconds(text) ? Number(text) * 1000 : isDate(text) ? Date.parse(text) - nowMillis : NaN
  return Number.isNaN(millis) ? null : Duration.millis(Math.max(0, millis))
}

/** The delay after failed attempt `attempt` (from 1) to stop a run: from 1 s, doubling up to 60 s, without an end. */
export const stopDelay = (attempt: number): Duration.Duration =>
  Backoff.delayAfter(attempt - 1, Duration.seconds(1), Duration.seconds(60))
