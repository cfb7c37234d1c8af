/** The store of revoked tokens in memory: for tests under TestClock. */
import { Duration, Effect, Layer } from "effect"
import * as Revocation from "../../../domain/Revocation.ts"
import { now, plus, type Timestamp } from "../../../domain/Timestamp.ts"
import { keptAfterExpiry, RevocationRepository, visibilityLag } from "./RevocationRepository.ts"

interface Row {
  readonly revocation: Revocation.Revocation
  readonly revokedAt: Timestamp
}

const keyOf = (revocation: Revocation.Revocation) =>
  revocation._tag === "Token" ? `token ${revocation.tokenId}` : `user ${revocation.sub}`

export const layer = Layer.sync(RevocationRepository, () => {
  const recorded = new Map<string, Row>()
  return RevocationRepository.of({
    add: (revocation) =>
      Effect.map(now, (revokedAt) => {
        const key = keyOf(revocation)
        recorded.set(key, { revocation: Revocation.merge(recorded.get(key)?.revocation, revocation), revokedAt })
      }),
    since: (moment) =>
      Effect.map(now, (readAt) => {
        const from = moment === undefined ? -Infinity : plus(moment, Duration.negate(visibilityLag))
        const rows = [...recorded.values()].filter(({ revokedAt }) => revokedAt >= from)
        return { revocations: rows.map(({ revocation }) => revocation), readAt }
      }),
    isRevoked: (principal) =>
      Effect.sync(() => [...recorded.values()].some(({ revocation }) => Revocation.covers(revocation, principal))),
    deleteExpired: (at, limit) =>
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
