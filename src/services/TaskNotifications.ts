/**
 * Tells those who wait for a task that it has changed. A notification is a hint: it carries nothing, may come twice or be
 * lost on the way from another node, and is always followed by a read of the row.
 */
import { Context, Effect, Latch, Layer, Queue, type Scope } from "effect"
import type { TaskId } from "../domain/Task.ts"
import { TooManyWaiting } from "../domain/TaskErrors.ts"

/** Waiting requests of one user on one node. */
const maxWaiting = 1000
const maxHeard = 10_000

export class TaskNotifications extends Context.Service<TaskNotifications, {
  /** A change that this node has committed: told here, and passed on to the other nodes. */
  readonly publish: (uuid: TaskId) => Effect.Effect<void>
  /** A change that another node has committed, or may have. */
  readonly hear: (uuid: TaskId) => Effect.Effect<void>
  /** What was heard, for the one who drives this node's tasks on. */
  readonly heard: Queue.Dequeue<TaskId>
  /** Open once changes may have gone unheard: the one who looks for them among the rows closes it. */
  readonly missed: Latch.Latch
  /** Every task that someone here waits for. */
  readonly watched: Effect.Effect<ReadonlyArray<TaskId>>
  /**
   * Subscribes for as long as the scope is open. The inner effect ends with the next notification; those that came since
   * it was last awaited count as one. Once the node drains it ends at once, with `false`.
   */
  readonly subscribe: (uuid: TaskId, sub: string) => Effect.Effect<Effect.Effect<boolean>, never, Scope.Scope>
  /** Whether another request of the user may wait here. */
  readonly admit: (sub: string) => Effect.Effect<void, TooManyWaiting>
  /** Open once a webhook has come to be owed here: a hint too, for the one who delivers them and closes it. */
  readonly webhookOwed: Latch.Latch
  /** Passes on to other nodes what is published here. */
  readonly relay: (send: (uuid: TaskId) => void) => Effect.Effect<void, never, Scope.Scope>
  /** Lets everyone who waits go, and no one wait any more: the node is about to stop. */
  readonly drain: Effect.Effect<void>
  /** Ends once the node drains. */
  readonly drained: Effect.Effect<void>
}>()("async-task-service/services/TaskNotifications") {
  static readonly layer = Layer.effect(
    TaskNotifications,
    Effect.gen(function*() {
      type Subscriber = Queue.Queue<boolean>
      const subscribers = new Map<TaskId, Set<Subscriber>>()
      const waiting = new Map<string, number>()
      const relays = new Set<(uuid: TaskId) => void>()
      const webhookOwed = Latch.makeUnsafe()
      const heard = yield* Queue.dropping<TaskId>(maxHeard)
      const missed = Latch.makeUnsafe()
      let draining = false
      const drained = Latch.makeUnsafe()

      const wake = (subscriber: Subscriber) => Queue.offerUnsafe(subscriber, !draining)

      const tell = (uuid: TaskId) => subscribers.get(uuid)?.forEach(wake)

      const enter = (uuid: TaskId, sub: string) =>
        Effect.map(Queue.sliding<boolean>(1), (subscriber) => {
          waiting.set(sub, (waiting.get(sub) ?? 0) + 1)
          const others = subscribers.get(uuid)
          if (others === undefined) subscribers.set(uuid, new Set([subscriber]))
          else others.add(subscriber)
          return subscriber
        })

      const leave = (uuid: TaskId, sub: string, subscriber: Subscriber) =>
        Effect.sync(() => {
          const others = subscribers.get(uuid)
          others?.delete(subscriber)
          if (others?.size === 0) subscribers.delete(uuid)
          const count = waiting.get(sub) ?? 1
          if (count === 1) waiting.delete(sub)
          else waiting.set(sub, count - 1)
        })

      return TaskNotifications.of({
        publish: (uuid) =>
          Effect.sync(() => {
            tell(uuid)
            relays.forEach((send) => send(uuid))
          }),
        hear: (uuid) =>
          Effect.sync(() => {
            tell(uuid)
            if (!Queue.offerUnsafe(heard, uuid)) missed.openUnsafe()
          }),
        heard,
        missed,
        watched: Effect.sync(() => [...subscribers.keys()]),
        subscribe: (uuid, sub) =>
          Effect.acquireRelease(enter(uuid, sub), (subscriber) => leave(uuid, sub, subscriber)).pipe(
            Effect.map((subscriber) => Effect.suspend(() => draining ? Effect.succeed(false) : Queue.take(subscriber)))
          ),
        admit: (sub) =>
          Effect.suspend(() =>
            (waiting.get(sub) ?? 0) < maxWaiting
              ? Effect.void
              : Effect.fail(new TooManyWaiting({ maximum: maxWaiting }))
          ),
        webhookOwed,
        relay: (send) =>
          Effect.acquireRelease(
            Effect.sync(() => void relays.add(send)),
            () => Effect.sync(() => void relays.delete(send))
          ),
        drain: Effect.suspend(() => {
          draining = true
          for (const waiters of subscribers.values()) waiters.forEach(wake)
          return drained.open
        }),
        drained: drained.await
      })
    })
  )
}
