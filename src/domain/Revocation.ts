/** Revocations: of one token, or of every token of a user that was issued before a moment. */
import { Schema } from "effect"
import type { Principal } from "./Principal.ts"
import { Timestamp } from "./Timestamp.ts"

export const Revocation = Schema.TaggedUnion({
  /** One token, by `Principal.tokenId`. */
  Token: { tokenId: Schema.String, expiresAt: Schema.NullOr(Timestamp) },
  /** Every token of a user that was issued before a moment. A token without `iat` counts as issued before. */
  User: { sub: Schema.String, issuedBefore: Timestamp, expiresAt: Schema.NullOr(Timestamp) }
})
export type Revocation = typeof Revocation.Type

/** Whether the token was issued before a moment. A token without `iat` counts as issued before. */
const isIssuedBefore = ({ issuedAt }: Principal, moment: Timestamp): boolean =>
  issuedAt === null || issuedAt * 1_000_000 < moment

/** Whether the revocation applies to the token of `principal`. */
export const covers = (revocation: Revocation, principal: Principal): boolean =>
  revocation._tag === "Token"
    ? revocation.tokenId === principal.tokenId
    : revocation.sub === principal.sub && isIssuedBefore(principal, revocation.issuedBefore)

/** Merges two revocations of the same token or user into the stricter one. */
export const merge = (one: Revocation | undefined, other: Revocation): Revocation => {
  if (one === undefined) return other
  const expiresAt = one.expiresAt === null || other.expiresAt === null
    ? null
    : Timestamp.make(Math.max(one.expiresAt, other.expiresAt))
  return one._tag === "User" && other._tag === "User"
    ? { ...other, issuedBefore: Timestamp.make(Math.max(one.issuedBefore, other.issuedBefore)), expiresAt }
    : { ...other, expiresAt }
}
