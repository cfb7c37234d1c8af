/** Who asks: the user of the token and what tells this token from another. */
import { Predicate, type Redacted, Schema } from "effect"

/** OpenID Connect's bound of a subject, in characters. */
const maxNameLength = 255

/** What may name a user or a token. */
export const isName = (claim: unknown): claim is string =>
  Predicate.isString(claim) && claim !== "" && claim.length <= maxNameLength && claim.isWellFormed() &&
  !claim.includes("\0")

export const Principal = Schema.Struct({
  /** The `sub` claim. */
  sub: Schema.String,
  /** What a revocation names: the token's `jti`, else the SHA-256 of its `header.payload`. */
  tokenId: Schema.String,
  /** The `iat` claim: seconds since the epoch. */
  issuedAt: Schema.NullOr(Schema.Finite)
})
export type Principal = typeof Principal.Type

/** A user with the very token of the request, which the core needs to call the assistant backend. */
export interface Caller {
  readonly principal: Principal
  readonly token: Redacted.Redacted
  /** The `exp` claim: seconds since the epoch. */
  readonly expiresAt: number
}
