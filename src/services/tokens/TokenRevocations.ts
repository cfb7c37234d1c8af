/**
 * Which tokens are revoked, as this node knows it: at once what it was told itself, within seconds what other nodes
 * were. A node that could not ask the store for `trust` does not trust what it knows: it asks for each token, or refuses.
 */
import { Clock, Context, Deferred, Duration, Effect, Equal, Layer, Schedule, Schema } from "effect"
import type { Principal } from "../../domain/Principal.ts"
import * as Revocation from "../../domain/Revocation.ts"
import { monotonicMillis, now, plus, type Timestamp } from "../../domain/Timestamp.ts"
import { keptAfterExpiry, RevocationRepository } from "../store/RevocationRepository.ts"
import * as Metrics from "../telemetry/Metrics.ts"
import { Intervals } from "../timing/Intervals.ts"
import { logFault } from "../timing/Retry.ts"

/** SPEC "Authentication": the token is blacklisted. */
export class TokenIsRevoked extends Schema.TaggedError<TokenIsRevoked>()("TokenIsRevoked", {}) {}

/** Nobody can say at the moment whether the token is revoked. */
export class RevocationsUnknown extends Schema.TaggedError<RevocationsUnknown>()("RevocationsUnknown", {}) {}

const syncTimeout = Duration.seconds(5)
/** Milliseconds. */
const trust = 30_000

export class TokenRevocations extends Context.Service<TokenRevocations, {
  readonly check: (principal: Principal) => Effect.Effect<void, TokenIsRevoked | RevocationsUnknown>
  /** Ends when the token is known to be revoked. */
  readonly awaitRevoked: (principal: Principal) => Effect.Effect<void>
  /** Stores a revocation; from then on this node refuses the token. */
  readonly revoke: (revocation: Revocation.Revocation) => Effect.Effect<void>
}>()("async-task-service/services/tokens/TokenRevocations") {
  static readonly layer = Layer.effect(
    TokenRevocations,
    Effect.gen(function*() {
      const repository = yield* RevocationRepository
      const intervals = yield* Intervals
      const tokens = new Map<string, Revocation.Revocation>()
      const users = new Map<string, Revocation.Revocation>()
      let learned = Deferred.makeUnsafe<void>()
      let lastRead: Timestamp | undefined
      /** By `monotonicMillis`. */
      let syncedAt: number

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

      const sync = Effect.gen(function*() {
        const startedAt = yield* monotonicMillis
        const { readAt, revocations } = yield* repository.since(lastRead)
        learn(revocations)
        lastRead = readAt
        syncedAt = startedAt
      })

      const ask = (principal: Principal) =>
        repository.isRevoked(principal).pipe(
          Effect.timeout(syncTimeout),
          Effect.catchCause(() => Effect.fail(new RevocationsUnknown({}))),
          Effect.filterOrFail((revoked) => !revoked, () => new TokenIsRevoked({})),
          Effect.asVoid
        )

      const check = (principal: Principal) =>
        Effect.flatMap(monotonicMillis, (present): Effect.Effect<void, TokenIsRevoked | RevocationsUnknown> => {
          if (isKnown(principal)) return Effect.fail(new TokenIsRevoked({}))
          return present < syncedAt + trust ? Effect.void : ask(principal)
        })

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

      yield* sync
      const clock = yield* Clock.Clock
      yield* Metrics.revocationAge.observe(() => Number(clock.monotonicTimeNanosUnsafe()) / 1e9 - syncedAt / 1000)
      yield* sync.pipe(
        Effect.timeout(syncTimeout),
        Effect.catchCause(logFault("revoked tokens could not be read")),
        Effect.schedule(Schedule.spaced(intervals.revocationSync)),
        Effect.forkScoped
      )
      yield* Effect.forkScoped(Effect.schedule(prune, Schedule.spaced(intervals.revocationPrune)))

      return TokenRevocations.of({
        check,
        awaitRevoked,
        revoke: (revocation) => Effect.andThen(repository.add(revocation), Effect.sync(() => learn([revocation])))
      })
    })
  )
}
