/** Converts the token bodies of REST and RPC into domain values. */
import { DateTime, Effect, Predicate, Redacted } from "effect"
import type { Principal } from "../../domain/Principal.ts"
import { Revocation } from "../../domain/Revocation.ts"
import { fromMicros, now, Timestamp } from "../../domain/Timestamp.ts"
import { idOfJti, type TokenVerifier } from "../../services/tokens/TokenVerifier.ts"
import { invalid } from "../contract/Errors.ts"
import type { RevokeBody, TokenBody } from "../contract/TokenSchemas.ts"

const momentOf = (given: string | number | null | undefined): Timestamp | null =>
  Predicate.isNullish(given)
    ? null
    : fromMicros(Predicate.isNumber(given) ? given * 1_000_000 : DateTime.makeUnsafe(given).epochMilliseconds * 1000)

const laterOf = (one: Timestamp | null, other: Timestamp | null) =>
  one === null || other === null ? one ?? other : Timestamp.make(Math.max(one, other))

const identify = (verifier: TokenVerifier["Service"], text: string) =>
  verifier.identify(Redacted.make(text)).pipe(
    Effect.mapError(() => invalid("token", "Expected a signed JSON Web Token"))
  )

export const revocationOf = Effect.fnUntraced(function*(
  verifier: TokenVerifier["Service"],
  { expires_at, issued_before, jti, sub, token }: RevokeBody
) {
  const expiresAt = momentOf(expires_at)
  if (sub) {
    const issuedBefore = momentOf(issued_before) ?? (yield* now)
    return Revocation.cases.User.make({ sub, issuedBefore, expiresAt })
  }
  if (!token) return Revocation.cases.Token.make({ tokenId: idOfJti(jti ?? ""), expiresAt })
  const read = yield* identify(verifier, token)
  return Revocation.cases.Token.make({
    tokenId: read.tokenId,
    expiresAt: laterOf(expiresAt, momentOf(read.expiresAt))
  })
})

/** The principal of the token in the body; `sub` and `issuedAt` may be missing. */
export const principalOf = Effect.fnUntraced(function*(
  verifier: TokenVerifier["Service"],
  { issued_at, jti, sub, token }: TokenBody
) {
  if (!token) {
    const principal: Principal = { sub: sub ?? "", tokenId: idOfJti(jti ?? ""), issuedAt: issued_at ?? null }
    return principal
  }
  const { issuedAt, sub: owner, tokenId } = yield* identify(verifier, token)
  const principal: Principal = { sub: owner ?? "", tokenId, issuedAt }
  return principal
})
