import { assert, describe, it } from "@effect/vitest"
import { Duration, Effect, Fiber } from "effect"
import { TestClock } from "effect/testing"
import { CoreUnavailable } from "../../../src/domain/DispatchRetry.ts"
import { now } from "../../../src/domain/Timestamp.ts"
import * as CoreReach from "../../../src/services/core/CoreReach.ts"

const refused = new CoreUnavailable({ reason: "connect ECONNREFUSED", retryAfter: null })
const maxAge = Duration.seconds(2)

/** A core whose connections `answer`. */
const made = Effect.fnUntraced(function*(answer: () => Effect.Effect<void, CoreUnavailable>) {
  let connections = 0
  const reach = yield* CoreReach.make(Effect.suspend(() => {
    connections++
    return answer()
  }))
  return { ...reach, connections: () => connections }
})

describe("whether the core is reached", () => {
  it.effect("is what the latest call found, without a connection while that is new", () =>
    Effect.gen(function*() {
      const { connections, observe, unreachable } = yield* made(() => Effect.void)
      yield* observe(Effect.succeed("answer"))
      assert.isUndefined(yield* unreachable(maxAge))
      yield* TestClock.adjust("1 second")
      const since = yield* now
      assert.strictEqual(yield* Effect.flip(observe(Effect.fail(refused))), refused)
      yield* TestClock.adjust("1 second")
      yield* Effect.flip(observe(Effect.fail(refused)))
      assert.deepStrictEqual(yield* unreachable(maxAge), { since, reason: refused.reason })
      yield* observe(Effect.succeed("answer"))
      assert.isUndefined(yield* unreachable(maxAge))
      assert.strictEqual(connections(), 0)
    }))

  it.effect("is found by one connection for all who ask", () =>
    Effect.gen(function*() {
      let answer: Effect.Effect<void, CoreUnavailable> = Effect.fail(refused)
      const { connections, unreachable } = yield* made(() => answer)
      const since = yield* now
      const all = yield* Effect.all(Array.from({ length: 100 }, () => unreachable(maxAge)), {
        concurrency: "unbounded"
      })
      assert.isTrue(all.every((found) => found?.since === since))
      yield* unreachable(maxAge)
      assert.strictEqual(connections(), 1)
      answer = Effect.void
      yield* TestClock.adjust("3 seconds")
      assert.isUndefined(yield* unreachable(maxAge))
      assert.strictEqual(connections(), 2)
    }))

  it.effect("keeps nobody waiting for a connection that hangs, and is known when that fails", () =>
    Effect.gen(function*() {
      const { connections, unreachable } = yield* made(() =>
        Effect.andThen(Effect.sleep("5 seconds"), Effect.fail(refused))
      )
      for (let asked = 0; asked < 3; asked++) {
        const asking = yield* Effect.forkChild(unreachable(maxAge))
        yield* TestClock.adjust("1 second")
        assert.isUndefined(yield* Fiber.join(asking))
      }
      assert.strictEqual(connections(), 1)
      yield* TestClock.adjust("2 seconds")
      assert.isDefined(yield* unreachable(maxAge))
      assert.strictEqual(connections(), 1)
    }))

  it.effect("is looked for every 10 s while it is lost, however often it came back before, and until it is there", () =>
    Effect.gen(function*() {
      let answer: Effect.Effect<void, CoreUnavailable> = Effect.fail(refused)
      const { connections, observe, unreachable } = yield* made(() => answer)
      for (let flap = 0; flap < 20; flap++) {
        yield* observe(Effect.void)
        yield* Effect.flip(observe(Effect.fail(refused)))
        yield* TestClock.adjust("100 millis")
      }
      yield* TestClock.adjust("60 seconds")
      assert.isAtLeast(connections(), 5)
      assert.isAtMost(connections(), 7)
      answer = Effect.void
      yield* TestClock.adjust("10 seconds")
      assert.isUndefined(yield* unreachable(Duration.infinity))
      const before = connections()
      yield* TestClock.adjust("60 seconds")
      assert.strictEqual(connections(), before)
    }))
})
