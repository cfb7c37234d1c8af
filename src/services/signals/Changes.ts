/**
 * Signals that a task has changed: to requests that wait for it on this node, to the other nodes, to the sweeper and to the dispatcher
 * of webhooks. A signal may be repeated, and may be lost between nodes. The receiver always reads the row, unless the head that this
 * node has committed shows that it need not.
 */
import { Context, Effect, Function, Latch, Layer, Queue, type Scope } from "effect"
import type { TaskHead, TaskId } from "../../domain/Task.ts"
import { TooManyWaiting } from "../../domain/TaskErrors.ts"
import type { Timestamp } from "../../domain/Timestamp.ts"
import { Counts } from "../limits/Counts.ts"
import * as ScanFloor from "../timing/ScanFloor.ts"

/** Maximum waiting requests of one user on one node. */
const maxWaiting = 1000

/** Maximum queued changes of other nodes; when it is exceeded, `mayHaveGaps` opens. */
const maxQueued = 10_000

/** Why a wait ends: a signal, or one of a change on this node that made `isEnough` true, or this node stops. */
export type Wake = "changed" | "enough" | "draining"

/** Whether notifications of other nodes arrive, as the relay observes. Nothing arrives without a relay. */
export interface Reception {
  isAlive: boolean
  /** Why nothing has arrived for a while although the database works; null otherwise. */
  problem: string | null
  /** Messages of other nodes about changes of tasks. That a node runs, which each announces every few seconds, is none. */
  received: number
}

interface Subscriber {
  readonly wakes: Queue.Queue<Wake>
  readonly isEnough: (head: TaskHead) => boolean
}

export class Changes extends Context.Service<Changes, {
  /** A change that this node has committed: signals waiting requests on this node and the other nodes. */
  readonly publish: (uuid: TaskId, head?: TaskHead) => Effect.Effect<void>
  /** A change that another node has committed, or may have committed. */
  readonly receive: (uuid: TaskId) => Effect.Effect<void>
  /** Calls `send` with every change that is published here, to forward it to other nodes for example. */
  readonly relay: (send: (uuid: TaskId, head?: TaskHead) => void) => Effect.Effect<void, never, Scope.Scope>

  /** Calls `see` with every change that is published or received here, with its head if this node has committed it. */
  readonly observe: (see: (uuid: TaskId, head?: TaskHead) => void) => Effect.Effect<void, never, Scope.Scope>

  /**
   * Subscribes a request, as a long poll or an event stream, while the scope is open. The inner effect completes at the next signal;
   * those since the last await count as one. When the node drains, it completes immediately. A change with a head for which
   * `isEnough` is false does not count.
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
  /** Ends all waits, present and future, because the node is about to stop. */
  readonly drain: Effect.Effect<void>
  /** Completes when the node drains. */
  readonly drained: Effect.Effect<void>

  /** Changes that were received, for the sweeper of this node's tasks. */
  readonly remote: Queue.Dequeue<TaskId>
  /** Open when some may have been lost. The sweeper closes it and searches the rows. */
  readonly mayHaveGaps: Latch.Latch
  readonly reception: Reception
  /** How many changes were published here, and messages of other nodes received. */
  readonly count: () => number

  readonly webhooks: {
    /** Open when a webhook may have become due. The dispatcher closes it before it claims. */
    readonly pending: Latch.Latch
    /** The moment at which the dispatcher's next claim begins. */
    readonly floor: ScanFloor.ScanFloor
    /** A delivery was committed that is due since `at`. */
    readonly due: (at: Timestamp) => void
  }
}>()("async-task-service/services/signals/Changes") {
  static readonly layer = Layer.effect(Changes, Effect.suspend(() => make))
}

const make = Effect.gen(function*() {
  const subscribers = new Map<TaskId, Set<Subscriber>>()
  const waiting = new Counts()
  const drained = Latch.makeUnsafe()
  let isDraining = false

  const wake = ({ wakes }: Subscriber, why: Wake) => {
    // "changed" says nothing that a wake before it does not.
    if (why !== "changed" || Queue.sizeUnsafe(wakes) === 0) Queue.offerUnsafe(wakes, isDraining ? "draining" : why)
  }
  const observers = new Set<(uuid: TaskId, head?: TaskHead) => void>()
  const notify = (uuid: TaskId, head?: TaskHead) => {
    observers.forEach((see) => see(uuid, head))
    subscribers.get(uuid)?.forEach((subscriber) => {
      if (head === undefined) wake(subscriber, "changed")
      else if (subscriber.isEnough(head)) wake(subscriber, "enough")
    })
  }

  const subscribe: Changes["Service"]["subscribe"] = Effect.fnUntraced(
    function*(uuid, sub, isEnough = Function.constTrue) {
      const wakes = yield* Queue.sliding<Wake>(1)
      const subscriber = { wakes, isEnough }
      const enter = Effect.sync(() => {
        waiting.add(sub)
        const others = subscribers.get(uuid)
        if (others === undefined) subscribers.set(uuid, new Set([subscriber]))
        else others.add(subscriber)
      })
      const leave = Effect.sync(() => {
        const others = subscribers.get(uuid)
        others?.delete(subscriber)
        if (others?.size === 0) subscribers.delete(uuid)
        waiting.remove(sub)
      })
      yield* Effect.acquireRelease(enter, () => leave)
      return Effect.suspend(() => isDraining ? Effect.succeed<Wake>("draining") : Queue.take(wakes))
    }
  )

  const relays = new Set<(uuid: TaskId, head?: TaskHead) => void>()
  const remote = yield* Queue.dropping<TaskId>(maxQueued)
  const mayHaveGaps = Latch.makeUnsafe()
  const reception: Reception = { isAlive: false, problem: null, received: 0 }
  let published = 0

  const pending = Latch.makeUnsafe()
  const floor = ScanFloor.make()

  return Changes.of({
    publish: (uuid, head) =>
      Effect.sync(() => {
        published++
        notify(uuid, head)
        relays.forEach((send) => send(uuid, head))
      }),
    receive: (uuid) =>
      Effect.sync(() => {
        notify(uuid)
        if (!Queue.offerUnsafe(remote, uuid)) mayHaveGaps.openUnsafe()
      }),
    relay: (send) =>
      Effect.acquireRelease(
        Effect.sync(() => void relays.add(send)),
        () => Effect.sync(() => void relays.delete(send))
      ),
    observe: (see) =>
      Effect.acquireRelease(
        Effect.sync(() => void observers.add(see)),
        () => Effect.sync(() => void observers.delete(see))
      ),
    subscribe,
    checkLimit: (sub) =>
      Effect.suspend(() =>
        waiting.of(sub) < maxWaiting
          ? Effect.void
          : Effect.fail(new TooManyWaiting({ maximum: maxWaiting }))
      ),
    watched: Effect.sync(() => [...subscribers.keys()]),
    drain: Effect.suspend(() => {
      isDraining = true
      for (const waiters of subscribers.values()) waiters.forEach((waiter) => wake(waiter, "draining"))
      return drained.open
    }),
    drained: drained.await,
    remote,
    mayHaveGaps,
    reception,
    count: () => published + reception.received,
    webhooks: {
      pending,
      floor,
      due: (at) => {
        floor.lower(at)
        pending.openUnsafe()
      }
    }
  })
})
