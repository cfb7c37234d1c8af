/**
 * Notifies this node and the others that a task has changed. A notification may be repeated, and may be lost between nodes. The
 * receiver always reads the row, unless the head that this node has committed shows that it need not.
 */
import { Context, Effect, Layer, type Scope } from "effect"
import type { TaskHead, TaskId } from "../../domain/Task.ts"
import { RemoteChanges } from "./RemoteChanges.ts"
import { WaitingRequests } from "./WaitingRequests.ts"
import { WebhooksPending } from "./WebhooksPending.ts"

export class TaskNotifications extends Context.Service<TaskNotifications, {
  /** Notifies waiting requests on this node and the other nodes of a change that this node has committed. */
  readonly publish: (uuid: TaskId, head?: TaskHead) => Effect.Effect<void>
  /** Receives a change that another node has committed, or may have committed. */
  readonly receive: (uuid: TaskId) => Effect.Effect<void>
  /** Calls `send` with every change that is published here, to forward it to other nodes. */
  readonly relay: (send: (uuid: TaskId) => void) => Effect.Effect<void, never, Scope.Scope>
}>()("async-task-service/services/signals/TaskNotifications") {
  /** Also provides `WaitingRequests`, `RemoteChanges` and `WebhooksPending`. */
  static readonly layer = Layer.effect(
    TaskNotifications,
    Effect.gen(function*() {
      const { notify } = yield* WaitingRequests
      const remote = yield* RemoteChanges
      const relays = new Set<(uuid: TaskId) => void>()
      return TaskNotifications.of({
        publish: (uuid, head) =>
          Effect.sync(() => {
            notify(uuid, head)
            relays.forEach((send) => send(uuid))
          }),
        receive: (uuid) =>
          Effect.sync(() => {
            notify(uuid)
            remote.add(uuid)
          }),
        relay: (send) =>
          Effect.acquireRelease(
            Effect.sync(() => void relays.add(send)),
            () => Effect.sync(() => void relays.delete(send))
          )
      })
    })
  ).pipe(Layer.provideMerge([WaitingRequests.layer, RemoteChanges.layer, WebhooksPending.layer]))
}
