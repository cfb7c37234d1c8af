/** Exponential backoff with a maximum: the delay doubles from `first` up to `maximum`. */
import { Duration, Schedule } from "effect"

/** The delay after `earlier` delays of the same series. */
export const delayAfter = (
  earlier: number,
  first: Duration.Duration,
  maximum: Duration.Duration
): Duration.Duration => Duration.min(Duration.times(first, 2 ** earlier), maximum)

/** The same delays as a schedule without an end. */
export const schedule = (first: Duration.Input, maximum: Duration.Input) =>
  Schedule.min([Schedule.exponential(first), Schedule.spaced(maximum)])
