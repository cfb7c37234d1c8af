import { assert, describe, it } from "@effect/vitest"
import { Schema } from "effect"
import { type Bounds, OriginLimiter } from "../../../src/services/webhooks/OriginLimiter.ts"

const between = (minimum: number, maximum: number) => Schema.Int.check(Schema.isBetween({ minimum, maximum }))

/** As in the dispatcher, two thirds of `reserved` less one batch are the largest window. */
const bounds: Bounds = { total: 36, reserved: 16, smallest: 2, largest: 8 }
const largestBatch = 4

/** Long enough to use up the permits of unproven origins, and all permits. */
const Steps = Schema.Array(Schema.Struct({
  origin: between(0, 11),
  count: between(1, 4),
  action: Schema.Literals(["acquire", "succeed", "fail"])
})).check(Schema.isMinLength(80), Schema.isMaxLength(200))

const nameOf = (origin: number) => `https://origin-${origin}.example`
const names = Array.from({ length: 12 }, (_, origin) => nameOf(origin))

/** The rules again, from the attempts in flight and the size of each window. */
const makeModel = ({ largest, reserved, smallest, total }: Bounds) => {
  const origins = new Map<string, { inFlight: number; size: number }>()
  const of = (origin: string) => origins.get(origin) ?? { inFlight: 0, size: smallest }
  const sum = (all: Iterable<{ readonly inFlight: number }>) =>
    [...all].reduce((sum, { inFlight }) => sum + inFlight, 0)
  const isClosed = () => sum([...origins.values()].filter(({ size }) => size === smallest)) >= total - reserved
  const permitsOf = (origin: string) => {
    const { inFlight, size } = of(origin)
    const share = Math.floor((total - sum(origins.values()) + inFlight) * 2 / 3)
    return size === smallest && isClosed() ? 0 : Math.max(0, Math.min(size, share) - inFlight)
  }
  return {
    inFlight: (origin: string) => of(origin).inFlight,
    permits: () => total - sum(origins.values()),
    permitsOf,
    permitsOfOthers: () => permitsOf("another"),
    acquire: (origin: string) => origins.set(origin, { ...of(origin), inFlight: of(origin).inFlight + 1 }),
    release: (origin: string, hasResponded: boolean) => {
      const { inFlight, size } = of(origin)
      origins.set(origin, { inFlight: inFlight - 1, size: hasResponded ? Math.min(largest, size * 2) : smallest })
    }
  }
}

/** Claims as the store does: of the due deliveries in their order, at most `limit`, within the offered permits. */
const claim = (windows: OriginLimiter, due: ReadonlyArray<string>, limit: number): ReadonlyArray<string> => {
  const { permits, permitsOfOthers } = windows.claimable
  const left = new Map(permits)
  const claimed = due.filter((origin) => {
    const free = left.get(origin) ?? permitsOfOthers
    left.set(origin, free - 1)
    return free > 0
  }).slice(0, Math.min(limit, windows.permits))
  for (const origin of claimed) windows.acquire(origin)
  return claimed
}

/** Claims in batches until no due delivery finds a permit. */
const claimAll = (windows: OriginLimiter, due: ReadonlyArray<string>, limit: number): ReadonlyArray<string> => {
  const batch = claim(windows, due, limit)
  if (batch.length === 0) return []
  const left = [...due]
  for (const origin of batch) left.splice(left.indexOf(origin), 1)
  return [...batch, ...claimAll(windows, left, limit)]
}

const repeat = (count: number, origin: string) => Array.from({ length: count }, () => origin)

describe("the limiter of attempts per origin", () => {
  it.prop("never has more in flight than its permits, in total and per origin", [Steps], ([steps]) => {
    const windows = new OriginLimiter(bounds)
    const model = makeModel(bounds)
    for (const { action, count, origin } of steps) {
      const name = nameOf(origin)
      if (action === "acquire") {
        for (let left = Math.min(count, windows.permits, windows.permitsOf(name)); left > 0; left--) {
          windows.acquire(name)
          model.acquire(name)
        }
      } else if (model.inFlight(name) > 0) {
        windows.release(name, action === "succeed")
        model.release(name, action === "succeed")
      }
      assert.isAtLeast(windows.permits, 0)
      assert.isAtMost(model.inFlight(name), bounds.largest)
      assert.strictEqual(windows.permits, model.permits())
      assert.strictEqual(windows.permitsOfOthers, model.permitsOfOthers())
      const { permits, permitsOfOthers } = windows.claimable
      const expected = names.map(model.permitsOf)
      assert.deepStrictEqual(names.map((each) => windows.permitsOf(each)), expected)
      // A proven origin with nothing in flight is offered fewer permits than its window until its next attempt.
      const offered = names.map((each) => permits.get(each) ?? permitsOfOthers)
      assert.isTrue(offered.every((count, index) => count <= expected[index]! && count > 0 === expected[index]! > 0))
    }
  })

  it.prop(
    "gives a proven origin the same permits whether or not other origins hang",
    [
      between(1, 60),
      between(1, 40),
      between(1, largestBatch),
      Schema.Array(between(0, 12)).check(Schema.isMaxLength(40))
    ],
    ([deadOrigins, timeout, limit, demands]) => {
      const attempts = (dead: number) => {
        const windows = new OriginLimiter(bounds)
        windows.acquire("healthy")
        windows.release("healthy", true)
        const hanging: Array<{ readonly origin: string; readonly until: number }> = []
        return demands.map((demand, step) => {
          while (hanging[0] !== undefined && hanging[0].until <= step) windows.release(hanging.shift()!.origin, false)
          // Deliveries of the dead origins are due first.
          const due = Array.from({ length: dead }, (_, index) => repeat(20, nameOf(index))).flat()
          for (const origin of claimAll(windows, due, limit)) hanging.push({ origin, until: step + timeout })
          const claimed = claimAll(windows, repeat(demand, "healthy"), limit)
          for (const origin of claimed) windows.release(origin, true)
          return claimed.length
        })
      }
      assert.deepStrictEqual(attempts(deadOrigins), attempts(0))
    }
  )

  it("shrinks the window of an origin to the start after an attempt without a response", () => {
    const windows = new OriginLimiter(bounds)
    const sizes = [true, true, true, false, true].map((hasResponded) => {
      windows.acquire("a")
      windows.release("a", hasResponded)
      return windows.permitsOf("a")
    })
    assert.deepStrictEqual(sizes, [4, 8, 8, 2, 4])
  })

  it("keeps the windows of a bounded number of idle origins", () => {
    const windows = new OriginLimiter(bounds)
    for (let origin = 0; origin < 5000; origin++) {
      windows.acquire(nameOf(origin))
      windows.release(nameOf(origin), true)
    }
    // While unproven origins get no permits, every window that is kept is listed.
    for (let dead = 0; dead < 10; dead++) for (const origin of repeat(2, `dead-${dead}`)) windows.acquire(origin)
    assert.strictEqual(windows.permitsOfOthers, 0)
    assert.isAtMost(windows.claimable.permits.size, 1000 + 10)
  })
})
