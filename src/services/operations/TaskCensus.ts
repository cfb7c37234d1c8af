/**
 * Gauges of the live tasks in the database, of the most overdue deadline and of the most overdue webhook, and of the queue. A refresh
 * queries the database at most once in 30 s, and for the queue once in 5 s, however many callers there are.
 */
import { Clock, Context, Duration, Effect, Layer } from "effect"
import { activeStatuses } from "../../domain/Task.ts"
import { fromNanos, now, type Timestamp } from "../../domain/Timestamp.ts"
import { GaugeHooks } from "../Extensions.ts"
import { CoreBusy } from "../queue/CoreBusy.ts"
import { type QueueState, RunQueue } from "../store/queue/RunQueue.ts"
import { TaskStore } from "../store/tasks/TaskStore.ts"
import { WebhookStore } from "../store/webhooks/WebhookStore.ts"
import * as Metrics from "../telemetry/Metrics.ts"
import * as Worker from "../timing/Worker.ts"

const interval = Duration.seconds(30)
/** The queue changes faster. */
const queueInterval = Duration.seconds(5)
const timeout = Duration.seconds(5)

/** Assistants that have series of their own. */
const maxLabels = 50
const other = "other"

/** Returns a function that sets the gauges of the queue. An assistant that left the queue goes to 0. */
const makeQueueGauges = () => {
  const labels = new Set<string>([other])
  const labelOf = (assistantId: number) => {
    const label = String(assistantId)
    if (labels.has(label)) return label
    if (labels.size > maxLabels) return other
    labels.add(label)
    return label
  }
  return ({ assistants, oldestWaitingSince, running, waiting }: QueueState, at: Timestamp) => {
    const counts = new Map([...labels].map((label) => [label, { running: 0, waiting: 0 }]))
    // Those that are not listed are counted too.
    const unlisted = { assistantId: undefined, running, waiting }
    for (const listed of assistants) {
      unlisted.running -= listed.running
      unlisted.waiting -= listed.waiting
    }
    for (const { assistantId, running, waiting } of [...assistants, unlisted]) {
      const label = assistantId === undefined ? other : labelOf(assistantId)
      const sum = counts.get(label) ?? { running: 0, waiting: 0 }
      counts.set(label, { running: sum.running + running, waiting: sum.waiting + waiting })
    }
    for (const [label, { running, waiting }] of counts) {
      Metrics.queueRunning.set(running, label)
      Metrics.queueWaiting.set(waiting, label)
    }
    Metrics.queueOldest.set(secondsSince(oldestWaitingSince, at))
  }
}

const secondsSince = (moment: Timestamp | null, at: Timestamp) =>
  moment === null ? 0 : Math.max(0, at - moment) / 1_000_000

export class TaskCensus extends Context.Service<TaskCensus, {
  /** Updates the gauges that are older than that. They keep their values when the database does not respond. */
  readonly refresh: Effect.Effect<void>
}>()("async-task-service/services/operations/TaskCensus") {
  static readonly layer = Layer.effect(
    TaskCensus,
    Effect.gen(function*() {
      const store = yield* TaskStore
      const webhooks = yield* WebhookStore
      const hooks = yield* GaugeHooks
      const queue = yield* RunQueue
      const setQueueGauges = makeQueueGauges()
      const busy = yield* CoreBusy
      const clock = yield* Clock.Clock
      yield* Metrics.coreBusyFor.observe(() =>
        secondsSince(busy.busySince() ?? null, fromNanos(clock.currentTimeNanosUnsafe()))
      )
      const take = Effect.gen(function*() {
        yield* Effect.all(hooks, { discard: true })
        const at = yield* now
        const { counts, nextDeadline } = yield* store.liveStats
        for (const status of activeStatuses) Metrics.liveTasks.set(counts[status], status)
        Metrics.deadlineOverdue.set(secondsSince(nextDeadline, at))
        Metrics.webhookOverdue.set(secondsSince(yield* webhooks.oldestDue(at), at))
      })
      const takeQueue = Effect.flatMap(now, (at) => Effect.map(queue.read, (state) => setQueueGauges(state, at)))
      const bounded = <E>(count: Effect.Effect<void, E>) =>
        count.pipe(
          Effect.timeout(timeout),
          Effect.catchCause((cause) => Effect.logDebug("live tasks could not be counted", cause))
        )
      const refresh = yield* Effect.cachedWithTTL(bounded(take), interval)
      const refreshQueue = yield* Effect.cachedWithTTL(bounded(takeQueue), queueInterval)
      return TaskCensus.of({ refresh: Effect.andThen(refresh, refreshQueue) })
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
