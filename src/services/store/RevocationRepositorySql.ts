/** The store of revoked tokens in Postgres. `commit_task` checks it for every event that continues a run. */
import { Duration, Effect, Layer, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { Revocation } from "../../domain/Revocation.ts"
import { format, plus, Timestamp } from "../../domain/Timestamp.ts"
import { keptAfterExpiry, RevocationRepository, visibilityLag } from "./RevocationRepository.ts"
import { micros } from "./TaskColumns.ts"

const Row = Schema.Struct({
  token_id: Schema.NullOr(Schema.String),
  sub: Schema.NullOr(Schema.String),
  issued_before: Schema.NullOr(Timestamp),
  expires_at: Schema.NullOr(Timestamp),
  read_at: Timestamp
})
const decodeRows = Schema.decodeUnknownEffect(Schema.Array(Row))

const revocationOf = ({ expires_at: expiresAt, issued_before, sub, token_id }: typeof Row.Type): Revocation =>
  sub !== null && issued_before !== null
    ? Revocation.cases.User.make({ sub, issuedBefore: issued_before, expiresAt })
    : Revocation.cases.Token.make({ tokenId: token_id ?? "", expiresAt })

/** The later of two expiries; null means never and is the latest. */
const laterExpiry = `CASE WHEN old.expires_at IS NULL OR EXCLUDED.expires_at IS NULL THEN NULL
  ELSE greatest(old.expires_at, EXCLUDED.expires_at) END`

export const layer = Layer.effect(
  RevocationRepository,
  Effect.gen(function*() {
    const sql = yield* SqlClient.SqlClient
    const run = (text: string, values: ReadonlyArray<unknown>) => sql.unsafe<object>(text, values)
    const orNull = (moment: Timestamp | null) => moment === null ? null : format(moment)

    return RevocationRepository.of({
      add: (revocation) => {
        const expiresAt = orNull(revocation.expiresAt)
        const added = revocation._tag === "Token"
          ? run(
            `INSERT INTO token_revocations AS old (token_id, expires_at) VALUES ($1::text, $2::timestamptz)
            ON CONFLICT (token_id) DO UPDATE SET expires_at = ${laterExpiry}, revoked_at = clock_timestamp()`,
            [revocation.tokenId, expiresAt]
          )
          : run(
            `INSERT INTO token_revocations AS old (sub, issued_before, expires_at)
            VALUES ($1::text, $2::timestamptz, $3::timestamptz)
            ON CONFLICT (sub) DO UPDATE SET issued_before = greatest(old.issued_before, EXCLUDED.issued_before),
              expires_at = ${laterExpiry}, revoked_at = clock_timestamp()`,
            [revocation.sub, format(revocation.issuedBefore), expiresAt]
          )
        return Effect.orDie(Effect.asVoid(added))
      },

      since: Effect.fnUntraced(
        function*(moment) {
          const rows = yield* run(
            `SELECT token_id, sub, ${micros("issued_before")} AS issued_before, ${micros("expires_at")} AS expires_at,
              ${micros("reading.at")} AS read_at
            FROM (SELECT statement_timestamp() AS at) AS reading LEFT JOIN token_revocations ON revoked_at >= $1::timestamptz`,
            [moment === undefined ? "-infinity" : format(plus(moment, Duration.negate(visibilityLag)))]
          )
          const decoded = yield* decodeRows(rows)
          return {
            revocations: decoded.filter(({ sub, token_id }) => sub !== null || token_id !== null).map(revocationOf),
            readAt: decoded[0]?.read_at ?? Timestamp.make(0)
          }
        },
        Effect.orDie
      ),

      isRevoked: Effect.fnUntraced(
        function*({ issuedAt, sub, tokenId }) {
          const [row] = yield* run(
            `SELECT EXISTS (SELECT FROM token_revocations WHERE token_id = $1::text) OR EXISTS (
              SELECT FROM token_revocations
              WHERE sub = $2::text AND ($3::float8 IS NULL OR to_timestamp($3::float8) < issued_before)
            ) AS revoked`,
            [tokenId, sub, issuedAt]
          )
          return (row as { readonly revoked: boolean }).revoked
        },
        Effect.orDie
      ),

      deleteExpired: (at, limit) =>
        run(
          `WITH expired AS (
            DELETE FROM token_revocations WHERE ctid = ANY (ARRAY(
              SELECT ctid FROM token_revocations WHERE expires_at <= $1::timestamptz LIMIT $2::int
              FOR UPDATE SKIP LOCKED
            )) RETURNING 1
          ) SELECT count(*)::int AS count FROM expired`,
          [format(plus(at, Duration.negate(keptAfterExpiry))), limit]
        ).pipe(Effect.map(([row]) => (row as { readonly count: number }).count), Effect.orDie)
    })
  })
)
