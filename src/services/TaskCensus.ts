/**
 * How many tasks are live and how late the first of them is, as gauges. The database is asked when someone looks, and not
 * again for a while, however many look.
 */
import { Context, Duration, Effect, Layer, Schedule } from "effect"
import { activeStatuses } from "../domain/Task.ts"
import { now } from "../domain/Timestamp.ts"
import * as Metrics from "./Metrics.ts"
import { TaskRepository } from "./TaskRepository.ts"

const interval = Duration.seconds(30)
const patience = Duration.seconds(5)

export class TaskCensus extends Context.Service<TaskCensus, {
  /** Brings the gauges up to date where they are old. A database that does not answer leaves them as they are. */
  readonly refresh: Effect.Effect<void>
}>()("async-task-service/services/TaskCensus") {
  static readonly layer = Layer.effect(
    TaskCensus,
    Effect.gen(function*() {
      const repository = yield* TaskRepository
      const take = Effect.gen(function*() {
        const { counts, nextDeadline } = yield* repository.liveStanding
        for (const status of activeStatuses) Metrics.liveTasks.set(counts[status], status)
        const overdue = nextDeadline === null ? 0 : Math.max(0, (yield* now) - nextDeadline)
        Metrics.oldestDue.set(overdue / 1_000_000)
      }).pipe(
        Effect.timeout(patience),
        Effect.catchCause((cause) => Effect.logDebug("live tasks could not be counted", cause))
      )
      return TaskCensus.of({ refresh: yield* Effect.cachedWithTTL(take, interval) })
    })
  )

  /** For those who are sent metrics, and so never come to look. */
  static readonly layerRepeated = Layer.effectDiscard(
    Effect.flatMap(
      TaskCensus,
      ({ refresh }) => Effect.forkScoped(Effect.repeat(refresh, Schedule.spaced(Duration.times(interval, 1.1))))
    )
  ).pipe(Layer.provide(TaskCensus.layer))
}
