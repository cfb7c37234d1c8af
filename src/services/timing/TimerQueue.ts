/**
 * A timer queue: a binary heap and one worker that sleeps until the earliest timer is due, so that a task that waits for
 * hours costs an entry and no fiber. Replaced and cleared entries stay in the heap until they reach the top, or until
 * they outnumber the live ones and the heap is rebuilt.
 */
import { Duration, Effect, Latch, Option, type Scope } from "effect"
import { now, type Timestamp, until } from "../../domain/Timestamp.ts"
import { NodeClock } from "./NodeClock.ts"
import * as Worker from "./Worker.ts"

interface Timer<Id> {
  readonly id: Id
  readonly at: Timestamp
}

export interface TimerQueue<Id> {
  /** Sets the timer of `id`, and replaces the one it had. */
  readonly set: (id: Id, at: Timestamp) => void
  readonly clear: (id: Id) => void
  /** The moment of the earliest timer. */
  readonly next: () => Timestamp | undefined
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

/** Calls `onDue` with each id whose timer is due, in the order of their moments. The timer is already removed by then. */
export const make = Effect.fnUntraced(function*<Id>(
  onDue: (id: Id) => Effect.Effect<void>
): Effect.fn.Return<TimerQueue<Id>, never, Scope.Scope> {
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

  const rebuild = () => {
    heap = []
    for (const timer of timers.values()) push(heap, timer)
  }

  const takeDue = Effect.gen(function*() {
    const present = yield* now
    for (let next = earliest(); next !== undefined && next.at <= present; next = earliest()) {
      timers.delete(next.id)
      pop(heap)
      yield* onDue(next.id)
    }
  })

  const untilNext = Effect.suspend(() => {
    const next = earliest()
    return next === undefined ? Effect.succeed(Duration.infinity) : until(next.at)
  })

  // A pause is a duration, so a step of the clock changes the time that is left: wait again.
  const clock = Option.getOrUndefined(yield* Effect.serviceOption(NodeClock))
  if (clock !== undefined) yield* clock.onStep(() => sooner.openUnsafe())
  yield* Worker.make({ name: "the timer queue", runOnce: takeDue, interval: untilNext, wake: sooner })

  return {
    set: (id, at) => {
      const timer = { id, at }
      timers.set(id, timer)
      push(heap, timer)
      if (heap.length > 2 * timers.size + staleBound) rebuild()
      if (heap[0] === timer) sooner.openUnsafe()
    },
    clear: (id) => void timers.delete(id),
    next: () => earliest()?.at
  }
})
