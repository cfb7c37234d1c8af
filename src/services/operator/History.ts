/** Counts for each minute, which all nodes add to. They are kept for 31 days, for the plots of operators. */
import { Context, Duration, Effect, Layer, Schema, Struct } from "effect"
import type { StoreUnavailable } from "../../domain/StoreUnavailable.ts"
import { targetOf, TaskEvent } from "../../domain/Task.ts"
import { now, plus, type Timestamp } from "../../domain/Timestamp.ts"
import { AttemptError } from "../../domain/Webhook.ts"
import { TaskActors } from "../actors/TaskActors.ts"
import * as Metrics from "../telemetry/Metrics.ts"
import * as Worker from "../timing/Worker.ts"

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

type Counts = Partial<Record<HistoryName, number>>

const keptFor = Duration.days(31)

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
}>()("async-task-service/services/operator/History") {}

const interval = Duration.seconds(10)
const deletionInterval = Duration.minutes(10)
const batch = 1000

const events = Struct.keys(TaskEvent.cases)
const countOf = (event: typeof events[number]) => Metrics.transitions.count(event, targetOf(event))
const endsIn = (status: "failed" | "canceled") =>
  events.filter((event) => targetOf(event) === status).reduce((sum, event) => sum + countOf(event), 0)

/** The counts since this process started. */
const totals = () => ({
  created: Metrics.transitions.count("Created", "pending"),
  accepted: countOf("Accepted"),
  interrupted: countOf("Interrupted"),
  completed: countOf("Completed"),
  failed: endsIn("failed"),
  canceled: endsIn("canceled"),
  acceptance_expired: countOf("AcceptanceExpired"),
  time_limit: countOf("TimeLimitExceeded"),
  webhook_delivered: Metrics.webhookAttempts.count("delivered"),
  webhook_failed: AttemptError.literals.reduce((sum, error) => sum + Metrics.webhookAttempts.count(error), 0)
})

/**
 * Adds what this node has counted to the history every 10 s. Counts are the increase of metrics since the last addition that is
 * known to be committed: one whose answer is lost may be added twice.
 */
export const layerRecorder = Layer.effectDiscard(Effect.gen(function*() {
  const history = yield* History
  const actors = yield* TaskActors
  let recorded = totals()

  const record = Effect.gen(function*() {
    const counted = totals()
    const counts: Counts = { late_ms_max: (yield* actors.load).lateness }
    for (const name of Struct.keys(counted)) counts[name] = counted[name] - recorded[name]
    for (const name of historyNames) if (counts[name] === 0) delete counts[name]
    if (Struct.keys(counts).length > 0) yield* history.add(yield* now, counts)
    recorded = counted
  })

  const deleteExpired = Effect.repeat(
    Effect.flatMap(now, (at) => history.deleteExpired(plus(at, Duration.negate(keptFor)), batch)),
    { while: (deleted) => deleted === batch }
  )

  yield* Effect.addFinalizer(() => Effect.ignoreCause(Effect.timeout(record, "1 second")))
  yield* Worker.make({ name: "the history", runOnce: record, interval, isDelayed: true })
  yield* Worker.make({ name: "the deletion of old history", runOnce: deleteExpired, interval: deletionInterval })
}))
