/** Who asks: the user of the token and what tells this token from another. */
import { type Redacted, Schema } from "effect"

export const Principal = Schema.Struct({
  /** The `sub` claim. */
  sub: Schema.String,
  /** What a revocation names: the token's `jti`, else the SHA-256 of its `header.payload`. */
  tokenId: Schema.String,
  /** The `iat` claim: seconds since the epoch. */
  issuedAt: Schema.NullOr(Schema.Number)
})
export type Principal = typeof Principal.Type

/** A user with the very token of the request, which the core needs to call the assistant backend. */
export interface Caller {
  readonly principal: Principal
  readonly token: Redacted.Redacted
  /** The `exp` claim: seconds since the epoch. */
  readonly expiresAt: number
}
