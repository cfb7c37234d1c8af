/**
 * Whose task is it: which tasks this node drives on. Ownership spares work and is no guard: two nodes may believe for a
 * moment that a task is theirs, and none may; the row's guard and the sweep make both harmless.
 */
import { Context, Effect, Layer } from "effect"
import type { TaskId } from "../domain/Task.ts"
import type { TaskShard } from "../domain/TaskShard.ts"

export class TaskOwnership extends Context.Service<TaskOwnership, {
  readonly isMine: (id: TaskId) => boolean
  /** The shards of this node; undefined where it has no others to divide the tasks with. */
  readonly shards: () => ReadonlyArray<TaskShard> | undefined
  /** Ends once shards have come or gone since it was last awaited; for one who waits. */
  readonly changed: Effect.Effect<void>
  /** Hands all shards to the other nodes, and takes no more. */
  readonly leave: Effect.Effect<void>
  /** Takes part again; the shards are dealt anew. */
  readonly join: Effect.Effect<void>
  readonly hasLeft: () => boolean
}>()("async-task-service/services/TaskOwnership") {
  /** One process: everything is its own. */
  static readonly layerAlone = Layer.sync(TaskOwnership, () => {
    let hasLeft = false
    const setLeft = (left: boolean) =>
      Effect.sync(() => {
        hasLeft = left
      })
    return TaskOwnership.of({
      isMine: () => true,
      shards: () => undefined,
      changed: Effect.never,
      leave: setLeft(true),
      join: setLeft(false),
      hasLeft: () => hasLeft
    })
  })
}
