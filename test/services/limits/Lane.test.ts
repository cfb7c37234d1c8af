import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber } from "effect"
import * as Lane from "../../../src/services/limits/Lane.ts"

describe("a lane", () => {
  it("begins a bounded number of works at a time, in the order in which they came", () => {
    const lane = Lane.make(2)
    const begun: Array<number> = []
    for (let work = 0; work < 5; work++) lane.enter(() => void begun.push(work))
    assert.deepStrictEqual(begun, [0, 1])
    lane.leave()
    assert.deepStrictEqual(begun, [0, 1, 2])
    lane.leave()
    lane.leave()
    lane.leave()
    assert.deepStrictEqual(begun, [0, 1, 2, 3, 4])
    lane.enter(() => void begun.push(5))
    lane.enter(() => void begun.push(6))
    assert.deepStrictEqual(begun, [0, 1, 2, 3, 4, 5])
  })

  it("begins a hundred thousand works in a row that end immediately", () => {
    const lane = Lane.make(1)
    let ended = 0
    lane.enter(() => {})
    for (let work = 0; work < 100_000; work++) {
      lane.enter(() => {
        ended++
        lane.leave()
      })
    }
    lane.leave()
    assert.strictEqual(ended, 100_000)
  })

  it.effect("lets fibers wait among them", () =>
    Effect.gen(function*() {
      const lane = Lane.make(1)
      const begun: Array<string> = []
      lane.enter(() => void begun.push("first"))
      const fiber = yield* Effect.forkChild(Effect.andThen(lane.entered, Effect.sync(() => begun.push("fiber"))), {
        startImmediately: true
      })
      lane.enter(() => void begun.push("last"))
      assert.deepStrictEqual(begun, ["first"])
      lane.leave()
      yield* Fiber.join(fiber)
      assert.deepStrictEqual(begun, ["first", "fiber"])
      lane.leave()
      assert.deepStrictEqual(begun, ["first", "fiber", "last"])
    }))

  it("goes on after a work that failed to begin", () => {
    const lane = Lane.make(1)
    const begun: Array<string> = []
    assert.throws(() =>
      lane.enter(() => {
        throw new Error("broken")
      }), "broken")
    lane.enter(() => void begun.push("next"))
    lane.leave()
    assert.deepStrictEqual(begun, ["next"])
  })
})
