/**
 * Decides which tasks this node runs. Ownership is an optimization, not a lock: for a moment two nodes, or none, may
 * consider themselves the owner of a task. The guard of each statement and the sweep make both cases harmless.
 */
import { Clock, Context, Effect, Layer } from "effect"
import type { TaskId } from "../../domain/Task.ts"
import type { TaskShard } from "../../domain/TaskShard.ts"

export class TaskOwnership extends Context.Service<TaskOwnership, {
  readonly isMine: (id: TaskId) => boolean
  /** The moment from which on the task is this node's, in milliseconds; infinite if it is not. */
  readonly ownedSince: (id: TaskId) => number
  /** The shards of this node; undefined in a single process. */
  readonly shards: () => ReadonlyArray<TaskShard> | undefined
  /** The addresses of the other nodes, as the cluster has them. */
  readonly others: () => ReadonlyArray<{ readonly host: string; readonly port: number }>
  /** Completes when shards were gained or lost since the last await. It supports a single waiter. */
  readonly changed: Effect.Effect<void>
  /** Drains the node: it releases all shards to the other nodes and acquires no more. */
  readonly drain: Effect.Effect<void>
  /**
   * Takes a drained node in again; one that was not drained leaves and rejoins. Shards are reassigned. A later call cancels
   * this one.
   */
  readonly takeIn: Effect.Effect<void>
  readonly isDrained: () => boolean
}>()("async-task-service/services/cluster/TaskOwnership") {
  /** A single process, which owns every task. */
  static readonly layerAlone = Layer.effect(
    TaskOwnership,
    Effect.map(Clock.currentTimeMillis, (startedAt) => {
      let isDrained = false
      const setDrained = (left: boolean) =>
        Effect.sync(() => {
          isDrained = left
        })
      return TaskOwnership.of({
        isMine: () => true,
        ownedSince: () => startedAt,
        shards: () => undefined,
        others: () => [],
        changed: Effect.never,
        drain: setDrained(true),
        takeIn: setDrained(false),
        isDrained: () => isDrained
      })
    })
  )
}
