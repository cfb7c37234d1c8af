/** Requests on this node that wait for a change of a task: long polls and event streams. */
import { Context, Effect, Function, Latch, Layer, Queue, type Scope } from "effect"
import type { TaskHead, TaskId } from "../../domain/Task.ts"
import { TooManyWaiting } from "../../domain/TaskErrors.ts"
import { Counts } from "../limits/Counts.ts"

/** Maximum waiting requests of one user on one node. */
const maxWaiting = 1000

/** Why a wait ends: a notification, or one of a change on this node that made `isEnough` true, or this node stops. */
export type Wake = "changed" | "enough" | "draining"

export class WaitingRequests extends Context.Service<WaitingRequests, {
  /**
   * Subscribes while the scope is open. The inner effect completes at the next notification; those since the last await count
   * as one. When the node drains, it completes immediately. A notification with a head for which `isEnough` is false does not
   * count.
   */
  readonly subscribe: (
    uuid: TaskId,
    sub: string,
    isEnough?: (head: TaskHead) => boolean
  ) => Effect.Effect<Effect.Effect<Wake>, never, Scope.Scope>
  /** Fails when the user already has the maximum number of waiting requests on this node. */
  readonly checkLimit: (sub: string) => Effect.Effect<void, TooManyWaiting>
  /** Every task that a request on this node waits for. */
  readonly watched: Effect.Effect<ReadonlyArray<TaskId>>
  /** Wakes the requests that wait for the task. `head` is what a change on this node has made of it. */
  readonly notify: (uuid: TaskId, head?: TaskHead) => void
  /** Ends all waits, present and future, because the node is about to stop. */
  readonly drain: Effect.Effect<void>
  /** Completes when the node drains. */
  readonly drained: Effect.Effect<void>
}>()("async-task-service/services/signals/WaitingRequests") {
  static readonly layer = Layer.sync(WaitingRequests, () => {
    interface Subscriber {
      readonly wakes: Queue.Queue<Wake>
      readonly isEnough: (head: TaskHead) => boolean
    }
    const subscribers = new Map<TaskId, Set<Subscriber>>()
    const waiting = new Counts()
    const drained = Latch.makeUnsafe()
    let isDraining = false

    const wake = ({ wakes }: Subscriber, why: Wake) => {
      // "changed" says nothing that a wake before it does not.
      if (why !== "changed" || Queue.sizeUnsafe(wakes) === 0) Queue.offerUnsafe(wakes, isDraining ? "draining" : why)
    }

    const enter = (uuid: TaskId, sub: string, isEnough: Subscriber["isEnough"]) =>
      Effect.map(Queue.sliding<Wake>(1), (wakes) => {
        const subscriber = { wakes, isEnough }
        waiting.add(sub)
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
        waiting.remove(sub)
      })

    return WaitingRequests.of({
      subscribe: (uuid, sub, isEnough = Function.constTrue) =>
        Effect.acquireRelease(enter(uuid, sub, isEnough), (subscriber) => release(uuid, sub, subscriber)).pipe(
          Effect.map(({ wakes }) =>
            Effect.suspend(() => isDraining ? Effect.succeed<Wake>("draining") : Queue.take(wakes))
          )
        ),
      checkLimit: (sub) =>
        Effect.suspend(() =>
          waiting.of(sub) < maxWaiting
            ? Effect.void
            : Effect.fail(new TooManyWaiting({ maximum: maxWaiting }))
        ),
      watched: Effect.sync(() => [...subscribers.keys()]),
      notify: (uuid, head) =>
        subscribers.get(uuid)?.forEach((subscriber) => {
          if (head === undefined) wake(subscriber, "changed")
          else if (subscriber.isEnough(head)) wake(subscriber, "enough")
        }),
      drain: Effect.suspend(() => {
        isDraining = true
        for (const waiters of subscribers.values()) waiters.forEach((waiter) => wake(waiter, "draining"))
        return drained.open
      }),
      drained: drained.await
    })
  })
}
