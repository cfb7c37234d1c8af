/**
 * Notifies waiting requests that a task has changed. A notification carries no data, may be repeated, and may be lost
 * between nodes. The receiver always reads the row.
 */
import { Context, Effect, Latch, Layer, Queue, type Scope } from "effect"
import type { TaskId } from "../../domain/Task.ts"
import { TooManyWaiting } from "../../domain/TaskErrors.ts"

/** Maximum waiting requests of one user on one node. */
const maxWaiting = 1000
/** Maximum queued notifications from other nodes; when it is exceeded, `mayHaveGaps` opens. */
const maxRemoteChanges = 10_000

export class TaskNotifications extends Context.Service<TaskNotifications, {
  /** Notifies subscribers on this node and the other nodes of a change that this node has committed. */
  readonly publish: (uuid: TaskId) => Effect.Effect<void>
  /** Receives a change that another node has committed, or may have committed. */
  readonly receive: (uuid: TaskId) => Effect.Effect<void>
  /** Changes received from other nodes, for the sweeper of this node's tasks. */
  readonly remoteChanges: Queue.Dequeue<TaskId>
  /** Open when notifications may have been lost. The sweeper closes it and searches the rows for changes. */
  readonly mayHaveGaps: Latch.Latch
  /** Every task that a request on this node waits for. */
  readonly watched: Effect.Effect<ReadonlyArray<TaskId>>
  /**
   * Subscribes while the scope is open. The inner effect completes with `true` at the next notification; those since
   * the last await count as one. When the node drains, it completes immediately with `false`.
   */
  readonly subscribe: (uuid: TaskId, sub: string) => Effect.Effect<Effect.Effect<boolean>, never, Scope.Scope>
  /** Fails when the user already has the maximum number of waiting requests on this node. */
  readonly checkWaitLimit: (sub: string) => Effect.Effect<void, TooManyWaiting>
  /** Opens when a webhook may have become due. The dispatcher closes it before it claims. */
  readonly webhookPending: Latch.Latch
  /** Calls `send` with every change that is published here, to forward it to other nodes. */
  readonly relay: (send: (uuid: TaskId) => void) => Effect.Effect<void, never, Scope.Scope>
  /** Ends all waits, present and future, because the node is about to stop. */
  readonly drain: Effect.Effect<void>
  /** Completes when the node drains. */
  readonly drained: Effect.Effect<void>
}>()("async-task-service/services/store/TaskNotifications") {
  static readonly layer = Layer.effect(
    TaskNotifications,
    Effect.gen(function*() {
      type Subscriber = Queue.Queue<boolean>
      const subscribers = new Map<TaskId, Set<Subscriber>>()
      const waiting = new Map<string, number>()
      const relays = new Set<(uuid: TaskId) => void>()
      const webhookPending = Latch.makeUnsafe()
      const remoteChanges = yield* Queue.dropping<TaskId>(maxRemoteChanges)
      const mayHaveGaps = Latch.makeUnsafe()
      let draining = false
      const drained = Latch.makeUnsafe()

      const wake = (subscriber: Subscriber) => Queue.offerUnsafe(subscriber, !draining)

      const notify = (uuid: TaskId) => subscribers.get(uuid)?.forEach(wake)

      const enter = (uuid: TaskId, sub: string) =>
        Effect.map(Queue.sliding<boolean>(1), (subscriber) => {
          waiting.set(sub, (waiting.get(sub) ?? 0) + 1)
          const others = subscribers.get(uuid)
          if (others === undefined) subscribers.set(uuid, new Set([subscriber]))
          else others.add(subscriber)
          return subscriber
        })

      const release = (uuid: TaskId, sub: string, subscriber: Subscriber) =>
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
            notify(uuid)
            relays.forEach((send) => send(uuid))
          }),
        receive: (uuid) =>
          Effect.sync(() => {
            notify(uuid)
            if (!Queue.offerUnsafe(remoteChanges, uuid)) mayHaveGaps.openUnsafe()
          }),
        remoteChanges,
        mayHaveGaps,
        watched: Effect.sync(() => [...subscribers.keys()]),
        subscribe: (uuid, sub) =>
          Effect.acquireRelease(enter(uuid, sub), (subscriber) => release(uuid, sub, subscriber)).pipe(
            Effect.map((subscriber) => Effect.suspend(() => draining ? Effect.succeed(false) : Queue.take(subscriber)))
          ),
        checkWaitLimit: (sub) =>
          Effect.suspend(() =>
            (waiting.get(sub) ?? 0) < maxWaiting
              ? Effect.void
              : Effect.fail(new TooManyWaiting({ maximum: maxWaiting }))
          ),
        webhookPending,
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
