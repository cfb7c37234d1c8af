/**
 * Which tokens are revoked, as this node knows it: at once what it was told itself, within `syncInterval` what other nodes
 * were. A node that could not ask the store for `trust` does not trust what it knows: it asks for each token, or refuses.
 */
import { Context, Deferred, Duration, Effect, Layer, Schedule, Schema } from "effect"
import type { Principal } from "../domain/Principal.ts"
import * as Revocation from "../domain/Revocation.ts"
import { now, plus, type Timestamp } from "../domain/Timestamp.ts"
import { keptAfterExpiry, RevocationRepository } from "./RevocationRepository.ts"

/** SPEC "Authentication": the token is blacklisted. */
export class TokenIsRevoked extends Schema.TaggedError<TokenIsRevoked>()("TokenIsRevoked", {}) {}

/** Nobody can say at the moment whether the token is revoked. */
export class RevocationsUnknown extends Schema.TaggedError<RevocationsUnknown>()("RevocationsUnknown", {}) {}

const syncInterval = Duration.seconds(2)
const syncPatience = Duration.seconds(5)
const trust = Duration.seconds(30)
const pruneInterval = Duration.minutes(1)

export class TokenRevocations extends Context.Service<TokenRevocations, {
  readonly check: (principal: Principal) => Effect.Effect<void, TokenIsRevoked | RevocationsUnknown>
  /** Ends when the token is known to be revoked. */
  readonly awaitRevoked: (principal: Principal) => Effect.Effect<void>
  /** Stores a revocation; from then on this node refuses the token. */
  readonly revoke: (revocation: Revocation.Revocation) => Effect.Effect<void>
}>()("async-task-service/services/TokenRevocations") {
  static readonly layer = Layer.effect(
    TokenRevocations,
    Effect.gen(function*() {
      const repository = yield* RevocationRepository
      const tokens = new Map<string, Revocation.Revocation>()
      const users = new Map<string, Revocation.Revocation>()
      let learned = Deferred.makeUnsafe<void>()
      let newest: Timestamp | undefined
      let syncedAt: Timestamp

      const learn = (revocations: ReadonlyArray<Revocation.Revocation>) => {
        if (revocations.length === 0) return
        for (const revocation of revocations) {
          const [known, key] = revocation._tag === "Token"
            ? [tokens, revocation.tokenId]
            : [users, revocation.sub]
          known.set(key, Revocation.merge(known.get(key), revocation))
        }
        Deferred.doneUnsafe(learned, Effect.void)
        learned = Deferred.makeUnsafe()
      }

      const isKnown = (principal: Principal) => {
        const ofUser = users.get(principal.sub)
        return tokens.has(principal.tokenId) || (ofUser !== undefined && Revocation.covers(ofUser, principal))
      }

      const sync = Effect.gen(function*() {
        const startedAt = yield* now
        const recorded = yield* repository.since(newest)
        learn(recorded.map(({ revocation }) => revocation))
        newest = recorded.at(-1)?.revokedAt ?? newest
        syncedAt = startedAt
      })

      const ask = (principal: Principal) =>
        repository.isRevoked(principal).pipe(
          Effect.timeout(syncPatience),
          Effect.catchCause(() => Effect.fail(new RevocationsUnknown({}))),
          Effect.filterOrFail((revoked) => !revoked, () => new TokenIsRevoked({})),
          Effect.asVoid
        )

      const check = (principal: Principal) =>
        Effect.flatMap(now, (present): Effect.Effect<void, TokenIsRevoked | RevocationsUnknown> => {
          if (isKnown(principal)) return Effect.fail(new TokenIsRevoked({}))
          return present < plus(syncedAt, trust) ? Effect.void : ask(principal)
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
      yield* sync.pipe(
        Effect.timeout(syncPatience),
        Effect.catchCause((cause) => Effect.logWarning("revoked tokens could not be read", cause)),
        Effect.schedule(Schedule.spaced(syncInterval)),
        Effect.forkScoped
      )
      yield* Effect.forkScoped(Effect.schedule(prune, Schedule.spaced(pruneInterval)))

      return TokenRevocations.of({
        check,
        awaitRevoked,
        revoke: (revocation) => Effect.andThen(repository.add(revocation), Effect.sync(() => learn([revocation])))
      })
    })
  )
}
