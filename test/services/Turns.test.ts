import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect, Fiber } from "effect"
import * as Turns from "../../src/services/Turns.ts"

describe("Turns", () => {
  it.effect("are given to so many at a time, in the order of asking", () =>
    Effect.gen(function*() {
      const inTurn = Turns.make(2)
      const gates = yield* Effect.replicateEffect(Deferred.make<void>(), 5)
      const entered: Array<number> = []
      const fibers = yield* Effect.forEach(gates, (gate, index) =>
        Effect.forkChild(
          inTurn(Effect.andThen(Effect.sync(() => entered.push(index)), Deferred.await(gate))),
          {
            startImmediately: true
          }
        ))
      assert.deepStrictEqual(entered, [0, 1])
      yield* Deferred.succeed(gates[1]!, undefined)
      yield* Fiber.join(fibers[1]!)
      assert.deepStrictEqual(entered, [0, 1, 2])
      // Who gives up waiting is passed over, and who gives up in its turn hands it on.
      yield* Fiber.interrupt(fibers[3]!)
      yield* Fiber.interrupt(fibers[0]!)
      assert.deepStrictEqual(entered, [0, 1, 2, 4])
      yield* Fiber.interrupt(fibers[2]!)
      yield* Fiber.interrupt(fibers[4]!)
      const both = yield* Deferred.make<void>()
      yield* Effect.all([inTurn(Deferred.succeed(both, undefined)), inTurn(Deferred.await(both))], {
        concurrency: "unbounded"
      })
    }))

  it.effect("are handed on by what fails", () =>
    Effect.gen(function*() {
      const inTurn = Turns.make(1)
      assert.strictEqual(yield* Effect.flip(inTurn(Effect.fail("no"))), "no")
      assert.strictEqual(yield* inTurn(Effect.succeed("yes")), "yes")
    }))
})
