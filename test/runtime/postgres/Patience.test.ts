import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber, Option } from "effect"
import { TestClock } from "effect/testing"
import * as Patience from "../../../src/runtime/postgres/Patience.ts"

/** Starts a statement that never ends, beside connections whose bytes the test sets. */
const start = Effect.fnUntraced(function*(roundTrips: ReadonlyArray<number> = [], most?: number) {
  const bytes = { received: 0, unanswered: 0 }
  const patience = Patience.make()
  for (const milliseconds of roundTrips) patience.observe(milliseconds)
  const traffic = { received: () => bytes.received, unanswered: () => bytes.unanswered }
  const fiber = yield* Effect.forkChild(
    Effect.exit(Patience.whileAnswering(Effect.never, traffic, patience, most))
  )
  return { bytes, fiber }
})

/** Asserts that the statement fails at the end of `milliseconds`, and not before. */
const failsAfter = Effect.fnUntraced(function*(fiber: Fiber.Fiber<{ readonly _tag: string }>, milliseconds: number) {
  yield* TestClock.adjust(milliseconds - 1)
  assert.isUndefined(fiber.pollUnsafe())
  yield* TestClock.adjust(1)
  assert.strictEqual((yield* Fiber.join(fiber))._tag, "Failure")
})

describe("a statement to a database", () => {
  it.effect("fails after 1.5 s of silence, so that the end of a near database is noticed within 2 s", () =>
    Effect.gen(function*() {
      const { fiber } = yield* start([20])
      yield* failsAfter(fiber, 1500)
    }))

  it.effect("fails after 2.5 round trips of silence of a distant database", () =>
    Effect.gen(function*() {
      const { fiber } = yield* start([1200])
      yield* failsAfter(fiber, 3000)
    }))

  it.effect("is given the round trips of a slow phase for a while after it", () =>
    Effect.gen(function*() {
      const { fiber } = yield* start([2000, 100])
      yield* failsAfter(fiber, 4600)
    }))

  it.effect("fails after 10 s although the process was suspended for a minute during a round trip", () =>
    Effect.gen(function*() {
      const { fiber } = yield* start([60_000])
      yield* failsAfter(fiber, 10_000)
    }))

  it.effect("has a second more for each 64 kB under way, and ten at most", () =>
    Effect.gen(function*() {
      const { bytes, fiber } = yield* start()
      bytes.unanswered = 128_000
      yield* failsAfter(fiber, 3500)
      const many = yield* start()
      many.bytes.unanswered = 100_000_000
      yield* failsAfter(many.fiber, 11_500)
    }))

  it.effect("fails that long after the last byte that another connection received", () =>
    Effect.gen(function*() {
      const { bytes, fiber } = yield* start()
      yield* TestClock.adjust(1450)
      bytes.received++
      yield* failsAfter(fiber, 1550)
    }))

  it.effect("ends without a result after its own limit while other connections receive something", () =>
    Effect.gen(function*() {
      const { bytes, fiber } = yield* start([], 2000)
      for (let step = 0; step < 20; step++) {
        assert.isUndefined(fiber.pollUnsafe())
        bytes.received++
        yield* TestClock.adjust(100)
      }
      assert.deepStrictEqual(yield* Effect.flatten(Fiber.join(fiber)), Option.none())
    }))
})

describe("the shortest of the last round trips", () => {
  it("ignores a pause of this process, and is unknown before so many", () => {
    const patience = Patience.make()
    for (const milliseconds of [600, 4000]) patience.observe(milliseconds)
    assert.deepStrictEqual([2, 3].map(patience.roundTrip), [600, 0])
    for (let more = 0; more < 9; more++) patience.observe(700)
    assert.deepStrictEqual([1, 9, 10].map(patience.roundTrip), [700, 700, 700])
  })
})
