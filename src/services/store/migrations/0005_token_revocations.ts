/** Frozen. Revoked tokens: one by its id, or all tokens of a user issued before a moment. */
export const statements: ReadonlyArray<string> = [
  `CREATE TABLE token_revocations (
    token_id text UNIQUE,
    sub text UNIQUE,
    issued_before timestamptz,
    expires_at timestamptz,
    revoked_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT token_revocations_subject CHECK (num_nonnulls(token_id, sub) = 1),
    CONSTRAINT token_revocations_issued_before CHECK ((sub IS NULL) = (issued_before IS NULL))
  )`,
  `CREATE INDEX token_revocations_order ON token_revocations (revoked_at)`,
  `CREATE INDEX token_revocations_expiry ON token_revocations (expires_at) WHERE expires_at IS NOT NULL`
]
