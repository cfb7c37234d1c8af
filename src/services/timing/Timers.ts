/**
 * Timers without fibers: a binary heap and one worker that sleeps until the earliest timer is due, so that a task that waits for hours
 * and a request that waits for a second cost an entry each. Replaced and cleared entries stay in the heap until they reach the top, or
 * until they outnumber the live ones and the heap is rebuilt.
 */
import { Clock, Duration, Effect, Latch, Option, type Scope } from "effect"
import { fromNanos, monotonicMillisOf, type Timestamp } from "../../domain/Timestamp.ts"
import { NodeClock } from "./NodeClock.ts"
import * as Worker from "./Worker.ts"

interface Timer<Id> {
  readonly id: Id
  readonly at: number
}

const push = <Id>(heap: Array<Timer<Id>>, timer: Timer<Id>): void => {
  let index = heap.length
  while (index > 0) {
    const parent = (index - 1) >> 1
    const above = heap[parent]
    if (above === undefined || above.at <= timer.at) break
    heap[index] = above
    index = parent
  }
  heap[index] = timer
}

const pop = <Id>(heap: Array<Timer<Id>>): void => {
  const last = heap.pop()
  if (last === undefined || heap.length === 0) return
  let index = 0
  for (;;) {
    const child = 2 * index + 1
    const left = heap[child]
    const right = heap[child + 1]
    const isRight = left !== undefined && right !== undefined && right.at < left.at
    const below = isRight ? right : left
    if (below === undefined || below.at >= last.at) break
    heap[index] = below
    index = isRight ? child + 1 : child
  }
  heap[index] = last
}

/** Stale heap entries that are tolerated in addition to one for each live timer, before the heap is rebuilt. */
const staleBound = 1024

/** `present` is the time in a unit of which `perMilli` make a millisecond. `name` is the worker's. */
const makeQueue = Effect.fnUntraced(function*<Id>(
  name: string,
  present: () => number,
  perMilli: number,
  onDue: (id: Id) => Effect.Effect<void>
) {
  const timers = new Map<Id, Timer<Id>>()
  let heap: Array<Timer<Id>> = []
  const sooner = Latch.makeUnsafe()

  const earliest = (): Timer<Id> | undefined => {
    for (let top = heap[0]; top !== undefined; top = heap[0]) {
      if (timers.get(top.id) === top) return top
      pop(heap)
    }
    return undefined
  }

  const takeDue = Effect.gen(function*() {
    const until = present()
    for (let next = earliest(); next !== undefined && next.at <= until; next = earliest()) {
      timers.delete(next.id)
      pop(heap)
      yield* onDue(next.id)
    }
  })

  const untilNext = Effect.sync(() => {
    const next = earliest()
    // A pause of a fraction of a millisecond would end before the moment.
    return next === undefined
      ? Duration.infinity
      : Duration.millis(Math.max(0, Math.ceil((next.at - present()) / perMilli)))
  })
  yield* Worker.make({ name, runOnce: takeDue, interval: untilNext, wake: sooner })

  return {
    sooner,
    set: (id: Id, at: number): void => {
      const timer = { id, at }
      timers.set(id, timer)
      push(heap, timer)
      if (heap.length > 2 * timers.size + staleBound) {
        heap = []
        for (const live of timers.values()) push(heap, live)
      }
      if (heap[0] === timer) sooner.openUnsafe()
    },
    clear: (id: Id): void => void timers.delete(id),
    next: (): number | undefined => earliest()?.at
  }
})

export interface Moments<Id> {
  /** Sets the timer of `id`, and replaces the one it had. */
  readonly set: (id: Id, at: Timestamp) => void
  readonly clear: (id: Id) => void
  /** The moment of the earliest timer. */
  readonly next: () => Timestamp | undefined
}

/**
 * Timers of moments. Calls `onDue` with each id whose timer is due, in the order of their moments. The timer is already removed by
 * then.
 */
export const make = Effect.fnUntraced(function*<Id>(
  onDue: (id: Id) => Effect.Effect<void>
): Effect.fn.Return<Moments<Id>, never, Scope.Scope> {
  const clock = yield* Clock.Clock
  const present = () => fromNanos(clock.currentTimeNanosUnsafe())
  const { clear, next, set, sooner } = yield* makeQueue("the timer queue", present, 1000, onDue)
  // A pause is a duration, so a step of the clock changes the time that is left: wait again.
  const node = Option.getOrUndefined(yield* Effect.serviceOption(NodeClock))
  if (node !== undefined) yield* node.onStep(() => sooner.openUnsafe())
  return { set, clear, next: next as Moments<Id>["next"] }
})

/** Timeouts on the monotonic clock. `name` is the worker's, as in "the timeout of webhooks". */
export const makeTimeouts = Effect.fnUntraced(function*(name: string) {
  const clock = yield* Clock.Clock
  const present = () => monotonicMillisOf(clock)
  const { clear, set } = yield* makeQueue(
    name,
    present,
    1,
    (wait: { onOverdue: () => void }) => Effect.sync(() => wait.onOverdue())
  )
  return {
    /** Begins a wait of at most `timeout` milliseconds. Returns how to end it. */
    begin: (timeout: number, onOverdue: () => void): () => void => {
      const wait = { onOverdue }
      set(wait, present() + timeout)
      return () => {
        // Its entry stays in the heap for a while.
        wait.onOverdue = () => {}
        clear(wait)
      }
    }
  }
})
