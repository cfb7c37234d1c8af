/** The store of revoked tokens in memory: for tests under TestClock. */
import { Duration, Effect, Layer } from "effect"
import * as Revocation from "../domain/Revocation.ts"
import { now, plus } from "../domain/Timestamp.ts"
import { keptAfterExpiry, type Recorded, RevocationRepository, visibilityLag } from "./RevocationRepository.ts"

const keyOf = (revocation: Revocation.Revocation) =>
  revocation._tag === "Token" ? `token ${revocation.tokenId}` : `user ${revocation.sub}`

export const layer = Layer.sync(RevocationRepository, () => {
  const recorded = new Map<string, Recorded>()
  return RevocationRepository.of({
    add: (revocation) =>
      Effect.map(now, (revokedAt) => {
        const key = keyOf(revocation)
        recorded.set(key, { revocation: Revocation.merge(recorded.get(key)?.revocation, revocation), revokedAt })
      }),
    since: (moment) =>
      Effect.sync(() => {
        const from = moment === undefined ? -Infinity : plus(moment, Duration.negate(visibilityLag))
        return [...recorded.values()]
          .filter(({ revokedAt }) => revokedAt >= from)
          .toSorted((one, other) => one.revokedAt - other.revokedAt)
      }),
    isRevoked: (principal) =>
      Effect.sync(() => [...recorded.values()].some(({ revocation }) => Revocation.covers(revocation, principal))),
    forget: (at, limit) =>
      Effect.sync(() => {
        const before = plus(at, Duration.negate(keptAfterExpiry))
        const expired = [...recorded].filter(([, { revocation: { expiresAt } }]) =>
          expiresAt !== null && expiresAt <= before
        ).slice(0, limit)
        for (const [key] of expired) recorded.delete(key)
        return expired.length
      })
  })
})
