import { assert, describe, it } from "@effect/vitest"
import { Effect, Exit, Fiber, Scope } from "effect"
import * as FairPermits from "../../../src/services/limits/FairPermits.ts"

describe("FairPermits", () => {
  /** Requests permits one after the other and records the holders in the order of the grants. */
  const world = (bounds: { readonly total: number; readonly perHolder: number }) => {
    const permits = FairPermits.make(bounds)
    const granted: Array<string> = []
    const ask = Effect.fnUntraced(function*(name: string, count: number) {
      const scope = yield* Scope.make()
      const taking = Scope.provide(permits.take(name.slice(0, 1), count), scope)
      const fiber = yield* Effect.forkChild(Effect.andThen(taking, Effect.sync(() => granted.push(name))), {
        startImmediately: true
      })
      return { fiber, release: Effect.andThen(Scope.close(scope, Exit.void), Effect.yieldNow) }
    })
    return { ask, granted }
  }

  it.effect("serves holders round-robin, each up to its share, without overtaking", () =>
    Effect.gen(function*() {
      const { ask, granted } = world({ total: 4, perHolder: 2 })
      const a1 = yield* ask("a1", 2)
      const a2 = yield* ask("a2", 2)
      const a3 = yield* ask("a3", 1)
      const b1 = yield* ask("b1", 1)
      // Two do not fit any more, so later requests wait as well.
      const c1 = yield* ask("c1", 2)
      const d1 = yield* ask("d1", 1)
      yield* Effect.yieldNow
      assert.deepStrictEqual(granted, ["a1", "b1"])
      yield* b1.release
      assert.deepStrictEqual(granted, ["a1", "b1", "c1"])
      yield* a1.release
      assert.deepStrictEqual(granted, ["a1", "b1", "c1", "d1"])
      yield* d1.release
      assert.deepStrictEqual(granted, ["a1", "b1", "c1", "d1", "a2"])
      for (const each of [a2, c1, a3]) yield* each.release
      assert.deepStrictEqual(granted, ["a1", "b1", "c1", "d1", "a2", "a3"])
    }))

  it.effect("returns the permits of interrupted holders and waiters", () =>
    Effect.gen(function*() {
      const { ask, granted } = world({ total: 1, perHolder: 1 })
      const a = yield* ask("a", 1)
      const b = yield* ask("b", 1)
      const c = yield* ask("c", 1)
      yield* Fiber.interrupt(b.fiber)
      yield* b.release
      yield* a.release
      yield* Effect.yieldNow
      assert.deepStrictEqual(granted, ["a", "c"])
      yield* c.release
    }))

  it.effect("grants to any number of waiters that release in the turn of the grant", () =>
    Effect.gen(function*() {
      const permits = FairPermits.make({ total: 1, perHolder: 1 })
      const scope = yield* Scope.make()
      yield* Scope.provide(permits.take("a", 1), scope)
      const waiters = yield* Effect.forEach(
        Array.from({ length: 20_000 }),
        (_, index) => Effect.forkChild(Effect.scoped(permits.take(`user-${index % 7}`, 1)), { startImmediately: true })
      )
      yield* Scope.close(scope, Exit.void)
      yield* Fiber.joinAll(waiters)
      // A permit is free again.
      yield* Effect.scoped(permits.take("b", 1))
    }))

  it.effect("has constant cost for any number of waiters", () =>
    Effect.gen(function*() {
      const permits = FairPermits.make({ total: 1, perHolder: 1 })
      let ended = 0
      yield* Effect.forEach(
        Array.from({ length: 20_000 }),
        (_, index) =>
          Effect.scoped(Effect.andThen(permits.take(`user-${index % 7_000}`, 1), Effect.sync(() => ended++))),
        { concurrency: "unbounded", discard: true }
      )
      assert.strictEqual(ended, 20_000)
    }))
})
