import { assert, describe, it } from "@effect/vitest"
import { Clock, type Duration, Effect } from "effect"
import { TestClock } from "effect/testing"
import * as Expiry from "../../../src/services/timing/Expiry.ts"

describe("the expiry of waits", () => {
  it.effect("ends each wait at its own deadline, in any order", () =>
    Effect.gen(function*() {
      const expiry = yield* Expiry.make("the test")
      const ended: Array<number> = []
      for (const timeout of [3000, 1000, 2000]) expiry.begin(timeout, () => ended.push(timeout))
      const endOther = expiry.begin(1500, () => ended.push(1500))
      yield* TestClock.adjust("999 millis")
      assert.deepStrictEqual(ended, [])
      yield* TestClock.adjust("1 millis")
      assert.deepStrictEqual(ended, [1000])
      endOther()
      expiry.begin(500, () => ended.push(500))
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
        const expiry = yield* Expiry.make("the test")
        for (let count = 0; count < 1000; count++) {
          const end = expiry.begin(5000, () => assert.fail("ended in time"))
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
