/** The contract of claims that are fair among users and origins, run on memory and on Postgres. */
import { assert } from "@effect/vitest"
import { Effect } from "effect"
import { TestClock } from "effect/testing"
import { now, plus, Timestamp } from "../../src/domain/Timestamp.ts"
import type { AttemptError } from "../../src/domain/Webhook.ts"
import { type ClaimPermits, WebhookStore } from "../../src/services/store/webhooks/WebhookStore.ts"
import { commit, type StoreTests } from "./StoredTasks.ts"
import { called, claimAll, leases, only, record } from "./StoredWebhooks.ts"

/** Inserts a due delivery. Without an origin the task has one of its own, and without a user a user of its own. */
const enqueued = Effect.fnUntraced(function*(origin?: string, sub?: string) {
  const principal = sub === undefined ? {} : { principal: { sub, tokenId: "token", issuedAt: 1_700_000_000 } }
  const found = yield* called(null, origin && `${origin}/hook`, null, principal)
  yield* commit(found.uuid, "Completed")
  return found
})

/** Permits for the given origins only, so that the deliveries of other tests are left alone. */
const onlyFor = (origins: ReadonlyArray<string>, isProven: (origin: string) => boolean = () => false) => ({
  byOrigin: new Map(origins.map((origin) => [origin, { permits: 100, isProven: isProven(origin) }])),
  ofProven: 0,
  ofUnproven: 0
})

const originsOf = (claimed: ReadonlyArray<{ readonly origin: string }>) => claimed.map(({ origin }) => origin)

export const claimContract = (it: StoreTests) => {
  it.effect("claims for users in turns, and for the origins of each user in turns", () =>
    Effect.gen(function*() {
      const first = yield* enqueued()
      const { sub } = first.principal
      yield* enqueued(first.origin, sub)
      yield* enqueued(first.origin, sub)
      const second = (yield* enqueued(undefined, sub)).origin
      yield* TestClock.adjust("1 second")
      const other = yield* enqueued()
      yield* enqueued(other.origin, other.principal.sub)
      const permits = onlyFor([first.origin, second, other.origin])
      const claimed = yield* claimAll({ ...permits, limit: 4 })
      assert.deepStrictEqual(
        originsOf(claimed).toSorted(),
        [first.origin, second, other.origin, other.origin].toSorted()
      )
    }))

  it.effect("claims within the permits of each user, and of unproven origins for each user and in total", () =>
    Effect.gen(function*() {
      const ann = yield* enqueued()
      const { sub } = ann.principal
      yield* enqueued(ann.origin, sub)
      const proven = (yield* enqueued(undefined, sub)).origin
      const bob = yield* enqueued()
      const all = [ann.origin, proven, bob.origin]
      const claim = (more: Partial<ClaimPermits>) =>
        Effect.map(claimAll({ ...onlyFor(all, (origin) => origin === proven), ...more }), originsOf)
      const none = { total: 0, unproven: 0 }
      assert.deepStrictEqual(yield* claim({ byUser: new Map([[sub, none]]), ofUser: none }), [])
      assert.deepStrictEqual(yield* claim({ unproven: 0, byUser: new Map([[sub, none]]) }), [])
      const noUnproven = { total: 10, unproven: 0 }
      assert.deepStrictEqual(yield* claim({ byUser: new Map([[sub, noUnproven]]), ofUser: none }), [proven])
      const one = { total: 10, unproven: 1 }
      assert.deepStrictEqual(yield* claim({ byUser: new Map([[sub, one]]), ofUser: none }), [ann.origin])
      assert.lengthOf(yield* claim({ unproven: 1 }), 1)
    }))

  it.effect("claims three deliveries to proven origins for each to an unproven one", () =>
    Effect.gen(function*() {
      const unproven = [yield* enqueued(), yield* enqueued(), yield* enqueued()]
      yield* TestClock.adjust("1 second")
      const proven = [yield* enqueued(), yield* enqueued(), yield* enqueued(), yield* enqueued()]
      const isProven = (origin: string) => proven.some((target) => target.origin === origin)
      const permits = onlyFor(originsOf([...unproven, ...proven]), isProven)
      const claimed = yield* claimAll({ ...permits, limit: 4 })
      assert.deepStrictEqual(claimed.map(({ origin }) => isProven(origin)).toSorted(), [false, true, true, true])
    }))

  it.effect("stores that an origin is proven by any response, until an attempt has none", () =>
    Effect.gen(function*() {
      const { origin } = yield* enqueued()
      const isProven = Effect.fnUntraced(function*(error: AttemptError | null) {
        yield* enqueued(origin)
        for (const delivery of yield* claimAll({ origin })) yield* record(delivery, error)
        yield* enqueued(origin)
        const [next] = yield* claimAll({ origin })
        yield* record(next!, "not_sent")
        return next!.isProven
      })
      assert.isFalse(yield* isProven("timed_out"))
      assert.isTrue(yield* isProven("not_2xx"))
      assert.isTrue(yield* isProven("not_sent"))
      assert.isFalse(yield* isProven("connection_failed"))
      assert.isTrue(yield* isProven(null))
      // The node that claims knows better.
      yield* enqueued(origin)
      assert.isEmpty(yield* claimAll({ ...onlyFor([origin]), unproven: 0 }))
      const store = yield* WebhookStore
      assert.lengthOf(yield* claimAll({ origin, ofUnproven: 0 }), 1)
      assert.isNull(yield* store.oldestDue(Timestamp.make(0)))
    }))

  it.effect("claims a lost attempt again only if its lease expired before a given moment", () =>
    Effect.gen(function*() {
      const { origin, uuid } = yield* enqueued()
      yield* claimAll({ origin })
      const at = plus(yield* now, leases[0]!)
      yield* TestClock.adjust(leases[0]!)
      const store = yield* WebhookStore
      assert.isAtMost((yield* store.oldestDue(at)) ?? Infinity, at)
      assert.isEmpty(yield* claimAll({ origin, lostBefore: plus(at, "-1 second") }))
      assert.lengthOf(yield* claimAll({ origin, lostBefore: at }), 1)
      assert.lengthOf((yield* only(uuid)).attempts, 2)
    }))
}
