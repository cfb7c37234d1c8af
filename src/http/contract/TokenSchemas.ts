/** Revoking tokens: one token, or all tokens of a user that were issued before a moment. */
import { Schema } from "effect"
import { absentOr, isAtMostCharacters } from "../../domain/Fields.ts"
import { maxSeconds } from "../../domain/Timestamp.ts"

const isIso = /^\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d(:\d\d(\.\d+)?)?([Zz]|[+-]\d\d:\d\d)$/

const expected = "an ISO 8601 moment with its offset, or seconds since 1970"

const isMoment = Schema.makeFilter((moment: string | number) => {
  const seconds = typeof moment === "number" ? moment : isIso.test(moment) ? Date.parse(moment) / 1000 : Number.NaN
  return seconds >= 0 && seconds <= maxSeconds
}, { expected })
const Moment = Schema.Union([Schema.String, Schema.Finite]).annotate({ expected }).check(isMoment)

/** The same maximum as in `TokenVerifier`. */
const name = Schema.NonEmptyString.check(isAtMostCharacters(255))

const subjects = ["jti", "token", "sub"] as const

/** Body of `POST /internal/tokens/revoke`: exactly one of `jti`, `token` and `sub`. */
export const RevokeBody = Schema.Struct({
  jti: absentOr(name, "Revokes the token with this `jti`."),
  token: absentOr(Schema.NonEmptyString, "Revokes this token; its signature is not checked."),
  sub: absentOr(name, "Revokes the tokens of this user."),
  issued_before: absentOr(
    Moment,
    "With `sub`: revokes the tokens issued before this moment, by default now. ISO 8601 or seconds since 1970."
  ),
  expires_at: absentOr(
    Moment,
    "Moment when the revoked tokens expire anyway and the revocation is deleted; by default the `exp` of `token`, otherwise never."
  )
}).annotate({ identifier: "RevokeTokens", description: "A revocation: exactly one of `jti`, `token` and `sub`." })
  .check(
    Schema.makeFilter((body) => {
      const given = subjects.filter((field) => body[field] !== undefined && body[field] !== null)
      if (given.length !== 1) {
        return { path: [given[1] ?? "jti"], issue: "Exactly one of jti, token and sub is expected" }
      }
      return body.sub || body.issued_before === undefined || body.issued_before === null
        ? undefined
        : { path: ["issued_before"], issue: "Allowed only with sub" }
    })
  )
export type RevokeBody = typeof RevokeBody.Type

/** Identifies one token. With `jti`, `sub` and `issued_at` also match revocations of all tokens of the user. */
export const TokenBody = Schema.Struct({
  jti: absentOr(name, "The token with this `jti`."),
  token: absentOr(Schema.NonEmptyString, "This token; its signature is not checked."),
  sub: absentOr(name, "With `jti`: the user of the token."),
  issued_at: absentOr(Schema.Finite, "With `jti` and `sub`: its `iat`, in seconds since 1970.")
}).check(
  Schema.makeFilter(({ jti, token }) =>
    (jti === undefined || jti === null) === (token === undefined || token === null)
      ? { path: ["jti"], issue: "Exactly one of jti and token is expected" }
      : undefined
  )
)
export type TokenBody = typeof TokenBody.Type
