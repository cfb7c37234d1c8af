/** The retry delays of the Effect clients. */
import { type Duration, Schedule } from "effect"

/** Doubles from `first` up to `maximum`, with jitter, without an end. */
export const cappedBackoff = (first: Duration.Input, maximum: Duration.Input) =>
  Schedule.min([Schedule.exponential(first), Schedule.spaced(maximum)]).pipe(Schedule.jittered)
