/**
 * A timer queue: a binary heap and one fiber that sleeps until the earliest timer is due, so that a task that waits for
 * hours costs an entry and no fiber. Replaced and cleared entries stay in the heap until they reach the top, or until
 * they outnumber the live ones and the heap is rebuilt.
 */
import { Duration, Effect, Latch, Option, type Scope } from "effect"
import { now, type Timestamp, until } from "../../domain/Timestamp.ts"
import { NodeClock } from "./NodeClock.ts"

interface Alarm<Id> {
  readonly id: Id
  readonly at: Timestamp
}

export interface Alarms<Id> {
  /** Sets the timer of `id`, and replaces the one it had. */
  readonly set: (id: Id, at: Timestamp) => void
  readonly clear: (id: Id) => void
  /** The moment of the earliest timer. */
  readonly next: () => Timestamp | undefined
}

const push = <Id>(heap: Array<Alarm<Id>>, alarm: Alarm<Id>): void => {
  let index = heap.length
  while (index > 0) {
    const parent = (index - 1) >> 1
    const above = heap[parent] as Alarm<Id>
    if (above.at <= alarm.at) break
    heap[index] = above
    index = parent
  }
  heap[index] = alarm
}

const pop = <Id>(heap: Array<Alarm<Id>>): void => {
  const last = heap.pop()
  if (last === undefined || heap.length === 0) return
  let index = 0
  for (;;) {
    let child = 2 * index + 1
    if (child >= heap.length) break
    if (child + 1 < heap.length && (heap[child + 1] as Alarm<Id>).at < (heap[child] as Alarm<Id>).at) child++
    const below = heap[child] as Alarm<Id>
    if (below.at >= last.at) break
    heap[index] = below
    index = child
  }
  heap[index] = last
}

/** Stale heap entries that are tolerated in addition to one for each live timer, before the heap is rebuilt. */
const staleBound = 1024

/**
 * Calls `ring` with each id whose timer is due, in the order of their moments. The timer is already removed by then.
 */
export const make = <Id>(ring: (id: Id) => Effect.Effect<void>): Effect.Effect<Alarms<Id>, never, Scope.Scope> =>
  Effect.gen(function*() {
    const set = new Map<Id, Alarm<Id>>()
    let heap: Array<Alarm<Id>> = []
    const sooner = yield* Latch.make()

    const isCurrent = (alarm: Alarm<Id>) => set.get(alarm.id) === alarm

    const earliest = (): Alarm<Id> | undefined => {
      while (heap[0] !== undefined && !isCurrent(heap[0])) pop(heap)
      return heap[0]
    }

    const rebuild = () => {
      heap = []
      for (const alarm of set.values()) push(heap, alarm)
    }

    const wait = Effect.gen(function*() {
      yield* sooner.close
      const next = earliest()
      if (next === undefined) return yield* sooner.await
      const left = yield* until(next.at)
      if (Duration.toMillis(left) > 0) yield* Effect.timeoutOption(sooner.await, left)
    })

    const ringDue = Effect.gen(function*() {
      const present = yield* now
      for (let next = earliest(); next !== undefined && next.at <= present; next = earliest()) {
        set.delete(next.id)
        pop(heap)
        yield* ring(next.id)
      }
    })

    // A sleep is a duration, so a step of the clock changes the time that is left: wait again.
    const clock = Option.getOrUndefined(yield* Effect.serviceOption(NodeClock))
    if (clock !== undefined) yield* clock.onStep(() => sooner.openUnsafe())
    yield* Effect.forkScoped(Effect.forever(Effect.andThen(wait, ringDue)))

    return {
      set: (id, at) => {
        const alarm = { id, at }
        set.set(id, alarm)
        push(heap, alarm)
        if (heap.length > 2 * set.size + staleBound) rebuild()
        if (heap[0] === alarm) sooner.openUnsafe()
      },
      clear: (id) => void set.delete(id),
      next: () => earliest()?.at
    }
  })
