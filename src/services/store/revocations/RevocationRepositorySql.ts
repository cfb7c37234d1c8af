/** Revoked tokens in Postgres. `commit_tasks` refuses an event that continues a run whose token is revoked. */
import { Duration, Effect, Layer, Option, Schema } from "effect"
import { SqlClient, SqlError } from "effect/sql"
import { Revocation } from "../../../domain/Revocation.ts"
import { plus, Timestamp } from "../../../domain/Timestamp.ts"
import { RevocationHooks } from "../../Extensions.ts"
import { PendingWork } from "../PendingWork.ts"
import { deletionQuery, failWhenUnavailable, make as makeQueries, micros, moment, query } from "../sql/Queries.ts"
import { keptAfterExpiry, RevocationRepository, visibilityLag } from "./RevocationRepository.ts"

/** The later of two expiries; null means never and is the latest. */
const laterExpiry = `CASE WHEN old.expires_at IS NULL OR EXCLUDED.expires_at IS NULL THEN NULL
  ELSE greatest(old.expires_at, EXCLUDED.expires_at) END`

const addToken = `INSERT INTO token_revocations AS old (token_id, expires_at) VALUES ($1::text, ${moment("$2")})
  ON CONFLICT (token_id) DO UPDATE SET expires_at = ${laterExpiry}, revoked_at = clock_timestamp()`

const addUser = `INSERT INTO token_revocations AS old (sub, issued_before, expires_at)
  VALUES ($1::text, ${moment("$2")}, ${moment("$3")})
  ON CONFLICT (sub) DO UPDATE SET issued_before = greatest(old.issued_before, EXCLUDED.issued_before),
    expires_at = ${laterExpiry}, revoked_at = clock_timestamp()`

export const fields = {
  tokenId: Schema.NullOr(Schema.String),
  sub: Schema.NullOr(Schema.String),
  issuedBefore: Schema.NullOr(Timestamp),
  expiresAt: Schema.NullOr(Timestamp)
}
const Row = Schema.Struct(fields)

export const columns = `token_id AS "tokenId", sub, ${micros("issued_before")} AS "issuedBefore",
  ${micros("expires_at")} AS "expiresAt"`

/** Returns at least one row; without revocations its columns are null, except `readAt`. */
const since = query(
  Schema.Struct({ ...fields, readAt: Timestamp }),
  `SELECT ${columns}, ${micros("reading.at")} AS "readAt"
  FROM (SELECT statement_timestamp() AS at) AS reading
  LEFT JOIN token_revocations ON revoked_at >= coalesce(${moment("$1")}, '-infinity')`
)

export const revocationOf = ({ expiresAt, issuedBefore, sub, tokenId }: typeof Row.Type): ReadonlyArray<Revocation> => {
  if (sub !== null && issuedBefore !== null) return [Revocation.cases.User.make({ sub, issuedBefore, expiresAt })]
  return tokenId === null ? [] : [Revocation.cases.Token.make({ tokenId, expiresAt })]
}

const isRevoked = query(
  Schema.Struct({ revoked: Schema.Boolean }),
  `SELECT EXISTS (SELECT FROM token_revocations WHERE token_id = $1::text) OR EXISTS (
    SELECT FROM token_revocations
    WHERE sub = $2::text AND ($3::float8 IS NULL OR to_timestamp($3::float8) < issued_before)
  ) AS revoked`
)

/** Seconds for which a revocation counts as new. */
const newest = 60

const deleteExpired = deletionQuery("token_revocations", `expires_at <= ${moment("@before")}`)

export const layer = Layer.effect(
  RevocationRepository,
  Effect.gen(function*() {
    const { count, execute, first, rows } = yield* makeQueries
    const sql = yield* SqlClient.SqlClient
    const hooks = yield* RevocationHooks
    const pendingWork = yield* PendingWork
    // One that is committed late has an earlier moment.
    const from = `statement_timestamp() - interval '${Duration.toSeconds(visibilityLag) + newest} seconds'`
    pendingWork.add("revocations", () => [`FROM token_revocations WHERE revoked_at >= ${from}`])

    const add = (revocation: Revocation) =>
      revocation._tag === "Token"
        ? execute(addToken, [revocation.tokenId, revocation.expiresAt])
        : execute(addUser, [revocation.sub, revocation.issuedBefore, revocation.expiresAt])

    return RevocationRepository.of({
      add: (revocation, author) => {
        const statements = hooks.flatMap((hook) => hook(revocation, author))
        if (statements.length === 0) return add(revocation)
        const all = Effect.forEach(statements, ({ text, values }) => execute(text, values), { discard: true })
        return Effect.catchIf(
          sql.withTransaction(Effect.andThen(add(revocation), all)),
          SqlError.isSqlError,
          (error) => failWhenUnavailable(Effect.fail(error))
        )
      },

      since: (moment) =>
        Effect.map(
          rows(since, [moment === undefined ? null : plus(moment, Duration.negate(visibilityLag))]),
          (found) => ({ revocations: found.flatMap(revocationOf), readAt: found[0]?.readAt ?? Timestamp.make(0) })
        ),

      isRevoked: ({ issuedAt, sub, tokenId }) =>
        Effect.map(first(isRevoked, [tokenId, sub, issuedAt]), Option.exists(({ revoked }) => revoked)),

      deleteExpired: (at, limit) => count(deleteExpired, { before: plus(at, Duration.negate(keptAfterExpiry)), limit })
    })
  })
)
