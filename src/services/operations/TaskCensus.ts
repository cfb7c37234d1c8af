/**
 * Gauges of the live tasks in the database, of the most overdue deadline and of the most overdue webhook. A refresh queries the
 * database at most once in 30 s, however many callers there are.
 */
import { Context, Duration, Effect, Layer } from "effect"
import { activeStatuses } from "../../domain/Task.ts"
import { now, type Timestamp } from "../../domain/Timestamp.ts"
import { GaugeHooks } from "../Extensions.ts"
import { TaskScans } from "../store/tasks/TaskScans.ts"
import { WebhookStore } from "../store/webhooks/WebhookStore.ts"
import * as Metrics from "../telemetry/Metrics.ts"
import * as Worker from "../timing/Worker.ts"

const interval = Duration.seconds(30)
const timeout = Duration.seconds(5)

export class TaskCensus extends Context.Service<TaskCensus, {
  /** Updates the gauges if they are older than 30 s. They keep their values when the database does not respond. */
  readonly refresh: Effect.Effect<void>
}>()("async-task-service/services/operations/TaskCensus") {
  static readonly layer = Layer.effect(
    TaskCensus,
    Effect.gen(function*() {
      const scans = yield* TaskScans
      const webhooks = yield* WebhookStore
      const hooks = yield* GaugeHooks
      const take = Effect.gen(function*() {
        yield* Effect.all(hooks, { discard: true })
        const at = yield* now
        const { counts, nextDeadline } = yield* scans.liveStats
        for (const status of activeStatuses) Metrics.liveTasks.set(counts[status], status)
        const secondsSince = (moment: Timestamp | null) => moment === null ? 0 : Math.max(0, at - moment) / 1_000_000
        Metrics.deadlineOverdue.set(secondsSince(nextDeadline))
        Metrics.webhookOverdue.set(secondsSince(yield* webhooks.oldestDue(at)))
      }).pipe(
        Effect.timeout(timeout),
        Effect.catchCause((cause) => Effect.logDebug("live tasks could not be counted", cause))
      )
      return TaskCensus.of({ refresh: yield* Effect.cachedWithTTL(take, interval) })
    })
  )

  /** Refreshes periodically for OTLP, which never scrapes. */
  static readonly layerRepeated = Layer.effectDiscard(
    Effect.flatMap(
      TaskCensus,
      ({ refresh }) =>
        Worker.make({ name: "the task census", runOnce: refresh, interval: Duration.times(interval, 1.1) })
    )
  ).pipe(Layer.provide(TaskCensus.layer))
}
