/** Counts for each minute, which all nodes add to. They are kept for 31 days, for the sparklines of operators. */
import { Context, Duration, type Effect, Schema } from "effect"
import type { StoreUnavailable } from "../../domain/StoreUnavailable.ts"
import type { Timestamp } from "../../domain/Timestamp.ts"

/** `late_ms_max` is the greatest value of a period; all others are sums. `webhook_failed` counts attempts. */
export const historyNames = [
  "created",
  "accepted",
  "interrupted",
  "completed",
  "failed",
  "canceled",
  "acceptance_expired",
  "time_limit",
  "late_ms_max",
  "webhook_delivered",
  "webhook_failed"
] as const
export type HistoryName = typeof historyNames[number]

export type Counts = Partial<Record<HistoryName, number>>

export const keptFor = Duration.days(31)

export const Point = Schema.Struct({
  name: Schema.Literals(historyNames),
  /** Periods since the start of the range. */
  period: Schema.Int,
  value: Schema.Finite
})
export type Point = typeof Point.Type

export class History extends Context.Service<History, {
  /** Adds counts to the minute of `at`. */
  readonly add: (at: Timestamp, counts: Counts) => Effect.Effect<void, StoreUnavailable>
  /** The values other than zero of `periods` periods of `step` seconds from `from`, which begins a minute. */
  readonly series: (
    from: Timestamp,
    step: number,
    periods: number
  ) => Effect.Effect<ReadonlyArray<Point>, StoreUnavailable>
  /** Deletes counts of minutes before `at`; returns their number. */
  readonly deleteExpired: (at: Timestamp, limit: number) => Effect.Effect<number, StoreUnavailable>
}>()("async-task-service/services/store/History") {}
