import { assert, describe, it } from "@effect/vitest"
import { Schema } from "effect"
import { type Attempt, AttemptLimiter, type Bounds } from "../../../src/services/webhooks/AttemptLimiter.ts"

const between = (minimum: number, maximum: number) => Schema.Int.check(Schema.isBetween({ minimum, maximum }))

/** As in the dispatcher, two thirds of `reserved` less one batch are the largest window. */
const bounds: Bounds = { total: 36, reserved: 16, smallest: 2, largest: 8 }
const largestBatch = 4

/** Long enough to use up the permits of unproven origins, and all permits. */
const Steps = Schema.Array(Schema.Struct({
  origin: between(0, 11),
  user: between(0, 3),
  count: between(1, 4),
  isProven: Schema.Boolean,
  action: Schema.Literals(["acquire", "succeed", "fail"])
})).check(Schema.isMinLength(80), Schema.isMaxLength(200))

type Target = Omit<Attempt, "isProven">

const targetOf = (origin: number, user = 0): Target => ({ origin: `https://origin-${origin}.example`, sub: `u${user}` })

/** How many attempts to a target the limiter offers. */
const offeredTo = (limiter: AttemptLimiter, { isProven, origin, sub }: Attempt): number => {
  const { byOrigin, byUser, ofProven, ofUnproven, ofUser, unproven } = limiter.claimable
  const known = byOrigin.get(origin)
  const user = byUser.get(sub) ?? ofUser
  const ofOrigin = known?.permits ?? (isProven ? ofProven : ofUnproven)
  return Math.min(ofOrigin, user.total, known?.isProven ?? isProven ? Infinity : Math.min(user.unproven, unproven))
}

type Release = (hasResponded: boolean) => boolean

/** Begins attempts to each target until no more are offered, or all are made. */
const acquireAll = (limiter: AttemptLimiter, due: ReadonlyArray<Target>, isProven = false): ReadonlyArray<Release> =>
  due.flatMap((target) => {
    const attempt = { ...target, isProven }
    return offeredTo(limiter, attempt) > 0 ? [limiter.acquire(attempt)] : []
  })

const repeat = (count: number, target: Target) => Array.from({ length: count }, () => target)

describe("the limiter of attempts", () => {
  it.prop(
    "never has more in flight than its permits, in total, per origin, per user and to unproven origins",
    [Steps],
    ([steps]) => {
      const limiter = new AttemptLimiter(bounds)
      const inFlight: Array<Attempt & { readonly release: Release; readonly isUnproven: boolean }> = []
      const count = (isCounted: (attempt: typeof inFlight[number]) => boolean) => inFlight.filter(isCounted).length
      for (const { action, count: wanted, isProven, origin, user } of steps) {
        const attempt = { ...targetOf(origin, user), isProven }
        if (action === "acquire") {
          for (let made = 0; made < wanted && offeredTo(limiter, attempt) > 0; made++) {
            const isUnproven = !(limiter.claimable.byOrigin.get(attempt.origin)?.isProven ?? isProven)
            inFlight.push({ ...attempt, isUnproven, release: limiter.acquire(attempt) })
            const others = count(({ sub }) => sub !== attempt.sub)
            assert.isAtMost(count(({ sub }) => sub === attempt.sub), (bounds.total - others) * 2 / 3)
            if (!isUnproven) continue
            const unproven = count(({ isUnproven }) => isUnproven)
            const own = count(({ isUnproven, sub }) => isUnproven && sub === attempt.sub)
            assert.isAtMost(unproven, bounds.total - bounds.reserved)
            assert.isAtMost(own, (bounds.total - bounds.reserved - (unproven - own)) / 4)
          }
        } else {
          const index = inFlight.findIndex((other) => other.origin === attempt.origin)
          for (const { release } of index < 0 ? [] : inFlight.splice(index, 1)) release(action === "succeed")
        }
        assert.strictEqual(limiter.permits, bounds.total - inFlight.length)
        assert.isAtLeast(limiter.permits, 0)
        assert.isAtMost(count((other) => other.origin === attempt.origin), bounds.largest)
      }
      for (const { release } of inFlight) release(false)
      limiter.forgetIdle()
      limiter.forgetIdle()
      assert.deepStrictEqual(limiter.claimable, new AttemptLimiter(bounds).claimable)
    }
  )

  it.prop(
    "gives a proven origin the same permits whether or not other origins hang",
    [
      between(1, 60),
      between(1, 40),
      Schema.Literals(["one user", "many users", "the same user"]),
      Schema.Array(between(0, 12)).check(Schema.isMaxLength(40))
    ],
    ([deadOrigins, timeout, whose, demands]) => {
      const well = targetOf(-1, -1)
      const userOf = { "one user": () => 0, "many users": (origin: number) => origin, "the same user": () => -1 }[whose]
      const attempts = (dead: number) => {
        const limiter = new AttemptLimiter(bounds)
        // Keeps the window of the proven origin, which grows.
        limiter.acquire({ ...well, isProven: true })
        const hanging: Array<{ readonly release: Release; readonly until: number }> = []
        return demands.map((demand, step) => {
          while (hanging[0] !== undefined && hanging[0].until <= step) hanging.shift()?.release(false)
          // Deliveries of the dead origins are due first.
          for (let origin = 0; origin < dead; origin++) {
            const due = repeat(largestBatch, targetOf(origin, userOf(origin)))
            for (const release of acquireAll(limiter, due)) hanging.push({ release, until: step + timeout })
          }
          const made = acquireAll(limiter, repeat(demand, well), true)
          for (const release of made) release(true)
          return made.length
        })
      }
      assert.deepStrictEqual(attempts(deadOrigins), attempts(0))
    }
  )

  it("leaves permits for the unproven origins of the next user, however many origins of others hang", () => {
    const limiter = new AttemptLimiter({ total: 1024, reserved: 256, smallest: 8, largest: 128 })
    const granted = Array.from({ length: 6 }, (_, user) => {
      const due = Array.from({ length: 150 }, (_, origin) => repeat(8, targetOf(1000 * user + origin, user))).flat()
      return acquireAll(limiter, due).length
    })
    assert.deepStrictEqual(granted, [192, 144, 108, 81, 60, 45])
  })

  it("doubles the window of an origin with each response, and resets it after an attempt without one", () => {
    const limiter = new AttemptLimiter(bounds)
    const attempt = { ...targetOf(0), isProven: false }
    const windowOf = () => (limiter.claimable.byOrigin.get(attempt.origin)?.permits ?? 0) + 1
    const kept = limiter.acquire(attempt)
    const sizes = [true, true, true, false, true].map((hasResponded) => {
      limiter.acquire(attempt)(hasResponded)
      return windowOf()
    })
    assert.deepStrictEqual(sizes, [4, 8, 8, 2, 4])
    kept(false)
    assert.strictEqual(limiter.claimable.byOrigin.size, 0)
  })

  it("keeps the window of an origin that has responded to all attempts until two claims have found none", () => {
    const limiter = new AttemptLimiter(bounds)
    const attempt = { ...targetOf(0), isProven: false }
    const claim = () => {
      limiter.forgetIdle()
      return limiter.claimable.byOrigin.get(attempt.origin)
    }
    const sizes = [1, 2, 3].map(() => {
      limiter.acquire(attempt)(true)
      return claim()?.permits
    })
    assert.deepStrictEqual(sizes, [4, 8, 8])
    assert.isUndefined(claim())
    limiter.acquire(attempt)(true)
    assert.deepStrictEqual(claim(), { permits: 4, isProven: true })
  })

  it("reports that others may have waited for a permit", () => {
    const limiter = new AttemptLimiter(bounds)
    const first = limiter.acquire({ ...targetOf(0), isProven: false })
    const second = limiter.acquire({ ...targetOf(0), isProven: false })
    assert.isTrue(second(false))
    assert.isFalse(first(false))
  })
})
