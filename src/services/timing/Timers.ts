/**
 * Timers without fibers: one worker sleeps until the earliest is due. Those of moments, which mostly come, are in a binary heap: replaced
 * and cleared entries stay in it until they reach the top, or until they outnumber the live ones and the heap is rebuilt. Those of
 * waits, which mostly end before, are in a set.
 */
import { Clock, Duration, Effect, Latch, Option, type Scope } from "effect"
import { fromNanos, monotonicMillisOf, type Timestamp } from "../../domain/Timestamp.ts"
import { NodeClock } from "./NodeClock.ts"
import * as Worker from "./Worker.ts"

interface Timer<Id> {
  readonly id: Id
  readonly at: Timestamp
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
      : Duration.millis(Math.max(0, Math.ceil((next.at - present()) / 1000)))
  })
  yield* Worker.make({ name: "the timer queue", runOnce: takeDue, interval: untilNext, wake: sooner })
  // A pause is a duration, so a step of the clock changes the time that is left: wait again.
  const node = Option.getOrUndefined(yield* Effect.serviceOption(NodeClock))
  if (node !== undefined) yield* node.onStep(() => sooner.openUnsafe())

  return {
    set: (id, at) => {
      const timer = { id, at }
      timers.set(id, timer)
      push(heap, timer)
      if (heap.length > 2 * timers.size + staleBound) {
        heap = []
        for (const live of timers.values()) push(heap, live)
      }
      if (heap[0] === timer) sooner.openUnsafe()
    },
    clear: (id) => void timers.delete(id),
    next: () => earliest()?.at
  }
})

interface Wait {
  /** In milliseconds of the monotonic clock. */
  readonly deadline: number
  /** Emptied at the end, because V8's sets keep former members alive for a while. */
  onOverdue: () => void
}

const nothing = () => {}

/**
 * Timeouts of waits that nearly always end in time, on the monotonic clock. A wait is an entry of a set and dies young: in a heap it
 * would stay until the old generation is collected. `name` is the worker's, as in "the timeout of webhooks".
 */
export const makeTimeouts = Effect.fnUntraced(function*(name: string) {
  const clock = yield* Clock.Clock
  const waits = new Set<Wait>()
  const sooner = Latch.makeUnsafe()
  /** No wait is overdue before this moment. It is kept when its wait has ended, so that short waits seldom wake the worker. */
  let checkAt = Infinity

  const check = Effect.sync(() => {
    const present = monotonicMillisOf(clock)
    if (present < checkAt) return
    checkAt = Infinity
    for (const wait of waits) {
      if (wait.deadline > present) checkAt = Math.min(checkAt, wait.deadline)
      else if (waits.delete(wait)) wait.onOverdue()
    }
  })
  yield* Worker.make({
    name,
    runOnce: check,
    // A timer of a fraction of a millisecond would end before the deadline.
    interval: Effect.sync(() => Duration.millis(Math.ceil(checkAt - monotonicMillisOf(clock)))),
    wake: sooner
  })

  return {
    /** Begins a wait of at most `timeout` milliseconds. Returns how to end it. */
    begin: (timeout: number, onOverdue: () => void): () => void => {
      const wait: Wait = { deadline: monotonicMillisOf(clock) + timeout, onOverdue }
      waits.add(wait)
      if (wait.deadline < checkAt) {
        checkAt = wait.deadline
        sooner.openUnsafe()
      }
      return () => {
        wait.onOverdue = nothing
        waits.delete(wait)
      }
    }
  }
})
