import { assert, describe, it } from "@effect/vitest"
import { Effect, Schema } from "effect"
import { TestClock } from "effect/testing"
import * as v8 from "node:v8"
import * as vm from "node:vm"
import { now, Timestamp } from "../../../src/domain/Timestamp.ts"
import * as TimerQueue from "../../../src/services/timing/TimerQueue.ts"

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

interface Rung {
  readonly id: number
  readonly at: Timestamp
}

const start = Effect.gen(function*() {
  const rung: Array<Rung> = []
  const alarms = yield* TimerQueue.make<number>((id) => Effect.map(now, (at) => void rung.push({ id, at })))
  return { alarms, rung }
})

/**
 * A naive timer queue that searches a list. It rings timers that are due up to `present`, at their moment or when they
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
    ring: (present: Timestamp): ReadonlyArray<Rung> => {
      const due = timers.filter(({ at }) => at <= present)
      timers = timers.filter(({ at }) => at > present)
      return due.map(({ at, id, setAt }) => ({ id, at: Timestamp.make(Math.max(at, setAt)) }))
    }
  }
}

const ordered = (rung: ReadonlyArray<Rung>) => rung.toSorted((one, other) => one.at - other.at || one.id - other.id)

const moment = (millis: number) => Timestamp.make(millis * 1000)

/** Bytes of live objects, after a full collection. */
const liveBytes = () => {
  v8.setFlagsFromString("--expose-gc")
  vm.runInNewContext("gc")()
  return process.memoryUsage().heapUsed
}

describe("the timer queue", () => {
  it.effect.prop(
    "rings like a naive list: each timer once, at its moment, in order, and never after it was cleared or replaced",
    [Steps],
    ([steps]) =>
      Effect.scoped(Effect.gen(function*() {
        const { alarms, rung } = yield* start
        const model = makeModel()
        for (const step of steps) {
          const present = yield* now
          if (step.type === "set") {
            const at = Timestamp.make(present + step.inMillis * 1000)
            alarms.set(step.id, at)
            model.set(step.id, at, present)
          } else if (step.type === "clear") {
            alarms.clear(step.id)
            model.clear(step.id)
          }
          yield* TestClock.adjust(step.type === "wait" ? step.millis : 0)
          const expected = model.ring(yield* now)
          assert.deepStrictEqual(rung.map(({ at }) => at), ordered(rung).map(({ at }) => at))
          assert.deepStrictEqual(ordered(rung.splice(0)), ordered(expected))
          assert.strictEqual(alarms.next(), model.next())
        }
      }))
  )

  it.effect("rings timers that became overdue during a slow handler in the order of their moments", () =>
    Effect.gen(function*() {
      const rung: Array<number> = []
      const alarms = yield* TimerQueue.make<number>((id) =>
        Effect.andThen(Effect.sync(() => rung.push(id)), id === 0 ? Effect.sleep(100) : Effect.void)
      )
      for (const id of [7, 3, 0, 9, 1, 8, 2]) alarms.set(id, moment(1 + id))
      yield* TestClock.adjust(100)
      assert.deepStrictEqual(rung, [0])
      yield* TestClock.adjust(1)
      assert.deepStrictEqual(rung, [0, 1, 2, 3, 7, 8, 9])
    }))

  it.effect("wakes for a timer that is earlier than the one it sleeps for", () =>
    Effect.gen(function*() {
      const { alarms, rung } = yield* start
      alarms.set(1, moment(1000))
      yield* TestClock.adjust(10)
      alarms.set(2, moment(20))
      yield* TestClock.adjust(10)
      assert.deepStrictEqual(rung, [{ id: 2, at: moment(20) }])
    }))

  it.effect("continues with the other timers when a handler sets and clears timers", () =>
    Effect.gen(function*() {
      const rung: Array<number> = []
      const alarms: TimerQueue.Alarms<number> = yield* TimerQueue.make<number>((id) =>
        Effect.sync(() => {
          rung.push(id)
          if (rung.length === 1) alarms.clear(2)
          if (rung.length === 1) alarms.set(4, moment(5))
          if (id === 3) alarms.set(1, moment(5))
        })
      )
      for (const id of [1, 2, 3]) alarms.set(id, moment(id))
      yield* TestClock.adjust(5)
      assert.deepStrictEqual(rung.splice(0, 2), [1, 3])
      assert.sameMembers(rung, [4, 1])
    }))

  it.effect("keeps its memory bounded when timers are replaced and cleared a million times", () =>
    Effect.gen(function*() {
      const { alarms } = yield* start
      const before = liveBytes()
      for (let round = 0; round < 500_000; round++) {
        alarms.set(round % 10, moment(3_600_000 + round))
        alarms.set(10 + round, moment(7_200_000 + round))
        alarms.clear(10 + round)
      }
      assert.isBelow(liveBytes() - before, 4 * 1024 * 1024)
      assert.strictEqual(alarms.next(), moment(3_600_000 + 499_990))
    }))
})
