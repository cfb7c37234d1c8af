/** The authenticated user and the identity of the token. */
import { Predicate, type Redacted, Schema } from "effect"
import { hasAtMostCharacters, isStorable } from "./Fields.ts"

/** OpenID Connect's maximum length of `sub`, in characters. */
const maxNameLength = 255

/** Whether a claim is usable as the id of a user or a token: a non-empty text that can be stored. */
export const isName = (claim: unknown): claim is string =>
  Predicate.isString(claim) && claim !== "" && hasAtMostCharacters(claim, maxNameLength) && isStorable(claim)

export const Principal = Schema.Struct({
  sub: Schema.String,
  /** The token's `jti`, else the SHA-256 of its `header.payload`. Revocations refer to it. */
  tokenId: Schema.String,
  /** The `iat` claim: seconds since the epoch. */
  issuedAt: Schema.NullOr(Schema.Finite)
})
export type Principal = typeof Principal.Type

/** A user with the token of the request. The core needs the token to call the assistant backend. */
export interface Caller {
  readonly principal: Principal
  readonly token: Redacted.Redacted
  /** The `exp` claim: seconds since the epoch. */
  readonly expiresAt: number
}
