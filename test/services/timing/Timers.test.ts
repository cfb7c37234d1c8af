import { assert, describe, it } from "@effect/vitest"
import { Clock, type Duration, Effect, Schema } from "effect"
import { TestClock } from "effect/testing"
import * as v8 from "node:v8"
import * as vm from "node:vm"
import { now, Timestamp } from "../../../src/domain/Timestamp.ts"
import * as Timers from "../../../src/services/timing/Timers.ts"

const between = (minimum: number, maximum: number) => Schema.Int.check(Schema.isBetween({ minimum, maximum }))
const Id = between(0, 9)

/**
 * Moments lie up to 5 ms in the past and 50 ms in the future, so that timers collide, move both ways and are overdue.
 */
const Steps = Schema.Array(Schema.Union([
  Schema.Struct({ type: Schema.Literal("set"), id: Id, inMillis: between(-5, 50) }),
  Schema.Struct({ type: Schema.Literal("clear"), id: Id }),
  Schema.Struct({ type: Schema.Literal("wait"), millis: between(0, 30) })
])).check(Schema.isMinLength(20), Schema.isMaxLength(60))

interface Fired {
  readonly id: number
  readonly at: Timestamp
}

const start = Effect.gen(function*() {
  const fired: Array<Fired> = []
  const timers = yield* Timers.make<number>((id) => Effect.map(now, (at) => void fired.push({ id, at })))
  return { timers, fired }
})

/**
 * A naive timer queue that searches a list. It fires timers that are due up to `present`, at their moment or when they
 * were set.
 */
const makeModel = () => {
  let timers: Array<{ readonly id: number; readonly at: Timestamp; readonly setAt: Timestamp }> = []
  return {
    set: (id: number, at: Timestamp, setAt: Timestamp) => {
      timers = [...timers.filter((timer) => timer.id !== id), { id, at, setAt }]
    },
    clear: (id: number) => {
      timers = timers.filter((timer) => timer.id !== id)
    },
    next: () => timers.length === 0 ? undefined : Math.min(...timers.map(({ at }) => at)),
    fire: (present: Timestamp): ReadonlyArray<Fired> => {
      const due = timers.filter(({ at }) => at <= present)
      timers = timers.filter(({ at }) => at > present)
      return due.map(({ at, id, setAt }) => ({ id, at: Timestamp.make(Math.max(at, setAt)) }))
    }
  }
}

const ordered = (fired: ReadonlyArray<Fired>) => fired.toSorted((one, other) => one.at - other.at || one.id - other.id)

const moment = (millis: number) => Timestamp.make(millis * 1000)

/** Bytes of live objects, after a full collection. */
const liveBytes = () => {
  v8.setFlagsFromString("--expose-gc")
  vm.runInNewContext("gc")()
  return process.memoryUsage().heapUsed
}

describe("the timer queue", () => {
  it.effect.prop(
    "fires like a naive list: each timer once, at its moment, in order, and never after it was cleared or replaced",
    [Steps],
    ([steps]) =>
      Effect.scoped(Effect.gen(function*() {
        const { timers, fired } = yield* start
        const model = makeModel()
        for (const step of steps) {
          const present = yield* now
          if (step.type === "set") {
            const at = Timestamp.make(present + step.inMillis * 1000)
            timers.set(step.id, at)
            model.set(step.id, at, present)
          } else if (step.type === "clear") {
            timers.clear(step.id)
            model.clear(step.id)
          }
          yield* TestClock.adjust(step.type === "wait" ? step.millis : 0)
          const expected = model.fire(yield* now)
          assert.deepStrictEqual(fired.map(({ at }) => at), ordered(fired).map(({ at }) => at))
          assert.deepStrictEqual(ordered(fired.splice(0)), ordered(expected))
          assert.strictEqual(timers.next(), model.next())
        }
      }))
  )

  it.effect("fires timers that became overdue during a slow handler in the order of their moments", () =>
    Effect.gen(function*() {
      const fired: Array<number> = []
      const timers = yield* Timers.make<number>((id) =>
        Effect.andThen(Effect.sync(() => fired.push(id)), id === 0 ? Effect.sleep(100) : Effect.void)
      )
      for (const id of [7, 3, 0, 9, 1, 8, 2]) timers.set(id, moment(1 + id))
      yield* TestClock.adjust(100)
      assert.deepStrictEqual(fired, [0])
      yield* TestClock.adjust(1)
      assert.deepStrictEqual(fired, [0, 1, 2, 3, 7, 8, 9])
    }))

  it.effect("wakes for a timer that is earlier than the one it sleeps for", () =>
    Effect.gen(function*() {
      const { timers, fired } = yield* start
      timers.set(1, moment(1000))
      yield* TestClock.adjust(10)
      timers.set(2, moment(20))
      yield* TestClock.adjust(10)
      assert.deepStrictEqual(fired, [{ id: 2, at: moment(20) }])
    }))

  it.effect("continues with the other timers when a handler sets and clears timers", () =>
    Effect.gen(function*() {
      const fired: Array<number> = []
      const timers: Timers.Moments<number> = yield* Timers.make<number>((id) =>
        Effect.sync(() => {
          fired.push(id)
          if (fired.length === 1) timers.clear(2)
          if (fired.length === 1) timers.set(4, moment(5))
          if (id === 3) timers.set(1, moment(5))
        })
      )
      for (const id of [1, 2, 3]) timers.set(id, moment(id))
      yield* TestClock.adjust(5)
      assert.deepStrictEqual(fired.splice(0, 2), [1, 3])
      assert.sameMembers(fired, [4, 1])
    }))

  it.effect("keeps its memory bounded when timers are replaced and cleared a million times", () =>
    Effect.gen(function*() {
      const { timers } = yield* start
      const before = liveBytes()
      for (let round = 0; round < 500_000; round++) {
        timers.set(round % 10, moment(3_600_000 + round))
        timers.set(10 + round, moment(7_200_000 + round))
        timers.clear(10 + round)
      }
      assert.isBelow(liveBytes() - before, 4 * 1024 * 1024)
      assert.strictEqual(timers.next(), moment(3_600_000 + 499_990))
    }))
})

describe("timeouts", () => {
  it.effect("ends each wait at its own deadline, in any order", () =>
    Effect.gen(function*() {
      const timeouts = yield* Timers.makeTimeouts("the test")
      const ended: Array<number> = []
      for (const timeout of [3000, 1000, 2000]) timeouts.begin(timeout, () => ended.push(timeout))
      const endOther = timeouts.begin(1500, () => ended.push(1500))
      yield* TestClock.adjust("999 millis")
      assert.deepStrictEqual(ended, [])
      yield* TestClock.adjust("1 millis")
      assert.deepStrictEqual(ended, [1000])
      endOther()
      timeouts.begin(500, () => ended.push(500))
      yield* TestClock.adjust("500 millis")
      assert.deepStrictEqual(ended, [1000, 500])
      yield* TestClock.adjust("1 minute")
      assert.deepStrictEqual(ended, [1000, 500, 2000, 3000])
    }))

  it.effect("wakes once per timeout for many short waits, and never without one", () =>
    Effect.gen(function*() {
      const clock = yield* Clock.Clock
      let sleeps = 0
      const counting = {
        ...clock,
        sleep: (duration: Duration.Duration) => {
          sleeps++
          return clock.sleep(duration)
        }
      }
      yield* Effect.gen(function*() {
        const timeouts = yield* Timers.makeTimeouts("the test")
        for (let count = 0; count < 1000; count++) {
          const end = timeouts.begin(5000, () => assert.fail("ended in time"))
          yield* TestClock.adjust("10 millis")
          end()
        }
        assert.isAtMost(sleeps, 4)
        yield* TestClock.adjust("5 seconds")
        sleeps = 0
        yield* TestClock.adjust("1 day")
        assert.strictEqual(sleeps, 0)
      }).pipe(Effect.provideService(Clock.Clock, counting))
    }))
})
