import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect, Fiber, PartitionedSemaphore } from "effect"

/** As dispatches use it. The module is marked unstable, so a new version of effect must pass this. */
const make = (permits: number) => PartitionedSemaphore.makeUnsafe({ permits }).withPermit("")

describe("permits in the order of requests", () => {
  it.effect("grants a fixed number at a time, in the order of requests", () =>
    Effect.gen(function*() {
      const withPermit = make(2)
      const gates = yield* Effect.replicateEffect(Deferred.make<void>(), 5)
      const entered: Array<number> = []
      const fibers = yield* Effect.forEach(gates, (gate, index) =>
        Effect.forkChild(
          withPermit(Effect.andThen(Effect.sync(() => entered.push(index)), Deferred.await(gate))),
          {
            startImmediately: true
          }
        ))
      assert.deepStrictEqual(entered, [0, 1])
      yield* Deferred.succeed(gates[1]!, undefined)
      yield* Fiber.join(fibers[1]!)
      yield* Effect.yieldNow
      assert.deepStrictEqual(entered, [0, 1, 2])
      // An interrupted waiter is skipped, and an interrupted holder passes its permit on.
      yield* Fiber.interrupt(fibers[3]!)
      yield* Fiber.interrupt(fibers[0]!)
      yield* Effect.yieldNow
      assert.deepStrictEqual(entered, [0, 1, 2, 4])
      yield* Fiber.interrupt(fibers[2]!)
      yield* Fiber.interrupt(fibers[4]!)
      const both = yield* Deferred.make<void>()
      yield* Effect.all([withPermit(Deferred.succeed(both, undefined)), withPermit(Deferred.await(both))], {
        concurrency: "unbounded"
      })
    }))

  it.effect("releases twenty thousand permits in a row immediately", () =>
    Effect.gen(function*() {
      const withPermit = make(1)
      const gate = yield* Deferred.make<void>()
      let ended = 0
      const first = yield* Effect.forkChild(withPermit(Deferred.await(gate)), { startImmediately: true })
      const others = yield* Effect.replicateEffect(
        Effect.forkChild(withPermit(Effect.sync(() => ended++)), { startImmediately: true }),
        20_000
      )
      yield* Deferred.succeed(gate, undefined)
      yield* Fiber.join(first)
      yield* Effect.forEach(others, Fiber.join, { discard: true })
      assert.strictEqual(ended, 20_000)
      assert.isTrue(yield* withPermit(Effect.succeed(true)))
    }))

  it.effect("passes the permit on after a failure", () =>
    Effect.gen(function*() {
      const withPermit = make(1)
      assert.strictEqual(yield* Effect.flip(withPermit(Effect.fail("no"))), "no")
      assert.strictEqual(yield* withPermit(Effect.succeed("yes")), "yes")
    }))
})
