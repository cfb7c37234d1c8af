/**
 * This node's copy of the revoked tokens. Revocations received by this node apply immediately, those of other nodes
 * within seconds. When the last read of the store is older than `maxAge`, each check queries the store or fails.
 */
import { Clock, Context, Deferred, Duration, Effect, Equal, Layer, Schema } from "effect"
import type { Principal } from "../../domain/Principal.ts"
import * as Revocation from "../../domain/Revocation.ts"
import type { StoreUnavailable } from "../../domain/StoreUnavailable.ts"
import { monotonicMillis, monotonicMillisOf, now, plus, type Timestamp } from "../../domain/Timestamp.ts"
import { PendingWork } from "../store/PendingWork.ts"
import { keptAfterExpiry, RevocationRepository } from "../store/revocations/RevocationRepository.ts"
import * as Metrics from "../telemetry/Metrics.ts"
import { Intervals } from "../timing/Intervals.ts"
import * as Worker from "../timing/Worker.ts"

export class TokenIsRevoked extends Schema.TaggedError<TokenIsRevoked>()("TokenIsRevoked", {}) {}

/** The revocation state of the token cannot be determined now. */
export class RevocationsUnknown extends Schema.TaggedError<RevocationsUnknown>()("RevocationsUnknown", {}) {}

const syncTimeout = Duration.seconds(5)
/** Milliseconds. */
const maxAge = 30_000
/** Milliseconds after which the revocations are read even if none seems to be new. */
const maxUnread = 30_000

export class TokenRevocations extends Context.Service<TokenRevocations, {
  readonly check: (principal: Principal) => Effect.Effect<void, TokenIsRevoked | RevocationsUnknown>
  /** Completes when this node knows that the token is revoked. */
  readonly awaitRevoked: (principal: Principal) => Effect.Effect<void>
  /** Stores a revocation; this node rejects the token from then on. */
  readonly revoke: (revocation: Revocation.Revocation, author?: string) => Effect.Effect<void, StoreUnavailable>
}>()("async-task-service/services/tokens/TokenRevocations") {
  static readonly layer = Layer.effect(TokenRevocations, Effect.suspend(() => make))
}

/** The revocations that this node knows. */
const makeKnown = () => {
  const tokens = new Map<string, Revocation.Revocation>()
  const users = new Map<string, Revocation.Revocation>()
  let learned = Deferred.makeUnsafe<void>()

  const learn = (revocations: ReadonlyArray<Revocation.Revocation>) => {
    let isNews = false
    for (const revocation of revocations) {
      const [known, key] = revocation._tag === "Token"
        ? [tokens, revocation.tokenId]
        : [users, revocation.sub]
      const before = known.get(key)
      const merged = Revocation.merge(before, revocation)
      isNews ||= !Equal.equals(before, merged)
      known.set(key, merged)
    }
    if (!isNews) return
    const past = learned
    learned = Deferred.makeUnsafe()
    Deferred.doneUnsafe(past, Effect.void)
  }

  const isKnown = (principal: Principal) => {
    const ofUser = users.get(principal.sub)
    return tokens.has(principal.tokenId) || (ofUser !== undefined && Revocation.covers(ofUser, principal))
  }

  const awaitRevoked = Effect.fnUntraced(function*(principal: Principal) {
    while (!isKnown(principal)) yield* Deferred.await(learned)
  })

  const prune = Effect.map(now, (present) => {
    for (const known of [tokens, users]) {
      for (const [key, { expiresAt }] of known) {
        if (expiresAt !== null && plus(expiresAt, keptAfterExpiry) <= present) known.delete(key)
      }
    }
  })

  return { learn, isKnown, awaitRevoked, prune }
}

const make = Effect.gen(function*() {
  const repository = yield* RevocationRepository
  const demand = (yield* PendingWork).of("revocations")
  const intervals = yield* Intervals
  const { awaitRevoked, isKnown, learn, prune } = makeKnown()
  let lastRead: Timestamp | undefined
  /** In `monotonicMillis`; `read` by the wall clock too, which goes on while the machine is suspended. */
  let syncedAt: number
  let read = { at: -Infinity, wall: -Infinity }

  const sync = Effect.gen(function*() {
    const startedAt = yield* monotonicMillis
    const { readAt, revocations } = yield* repository.since(lastRead)
    learn(revocations)
    lastRead = readAt
    syncedAt = startedAt
    read = { at: startedAt, wall: yield* Clock.currentTimeMillis }
  })

  /** A revocation counts as pending for longer than `maxUnread`, so that none is new only between two reads. */
  const isDue = Effect.gen(function*() {
    const at = yield* monotonicMillis
    const isOld = Math.max(at - read.at, Math.abs((yield* Clock.currentTimeMillis) - read.wall)) > maxUnread
    if (isOld || (yield* demand.isDue)) return true
    syncedAt = at
    return false
  })

  const query = (principal: Principal) =>
    repository.isRevoked(principal).pipe(
      Effect.timeout(syncTimeout),
      Effect.mapError(() => new RevocationsUnknown({})),
      Effect.filterOrFail((revoked) => !revoked, () => new TokenIsRevoked({})),
      Effect.asVoid
    )

  const check = (principal: Principal) =>
    Clock.clockWith((clock): Effect.Effect<void, TokenIsRevoked | RevocationsUnknown> => {
      if (isKnown(principal)) return Effect.fail(new TokenIsRevoked({}))
      return monotonicMillisOf(clock) < syncedAt + maxAge ? Effect.void : query(principal)
    })

  yield* sync
  const clock = yield* Clock.Clock
  yield* Metrics.revocationAge.observe(() => (monotonicMillisOf(clock) - syncedAt) / 1000)
  yield* Worker.make({
    name: "the synchronization of revoked tokens",
    runOnce: Effect.timeout(sync, syncTimeout),
    interval: intervals.revocationSync,
    demand: { ...demand, isDue },
    isDelayed: true
  })
  yield* Worker.make({ name: "the pruning of revoked tokens", runOnce: prune, interval: intervals.revocationPrune })

  return TokenRevocations.of({
    check,
    awaitRevoked,
    revoke: (revocation, author) =>
      Effect.andThen(repository.add(revocation, author), Effect.sync(() => learn([revocation])))
  })
})
