/** Frozen. Idempotency keys, claimed in the transaction of their request's change. */
export const statements: ReadonlyArray<string> = [
  `CREATE TABLE idempotency_keys (
    sub text NOT NULL,
    key text NOT NULL,
    fingerprint text NOT NULL,
    task_uuid uuid NOT NULL,
    expires_at timestamptz NOT NULL,
    PRIMARY KEY (sub, key)
  )`,
  `CREATE INDEX idempotency_keys_expiry ON idempotency_keys (expires_at)`,

  // Nodes of the previous version still call the function without the key, so both overloads exist.
  `CREATE FUNCTION create_task(
    p_uuid uuid, p_sub text, p_run_id uuid, p_callback_url text, p_max_execution_time integer,
    p_created_at timestamptz, p_deadline_at timestamptz, p_acceptance_deadline_at timestamptz,
    p_token_id text, p_token_issued_at timestamptz,
    p_request text, p_user_token text, p_callback_secret text, p_max_active integer,
    p_key text, p_fingerprint text, p_key_expires_at timestamptz, OUT outcome text, OUT task_uuid uuid
  ) LANGUAGE plpgsql AS $$
  DECLARE
    claimed idempotency_keys;
  BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended('async-task-service:' || p_sub, 0));
    IF p_key IS NOT NULL THEN
      SELECT * INTO claimed FROM idempotency_keys k
      WHERE k.sub = p_sub AND k.key = p_key AND k.expires_at > p_created_at;
      IF FOUND THEN
        outcome := CASE WHEN claimed.fingerprint = p_fingerprint THEN 'replayed' ELSE 'key_reused' END;
        task_uuid := claimed.task_uuid;
        RETURN;
      END IF;
    END IF;
    outcome := create_task(
      p_uuid, p_sub, p_run_id, p_callback_url, p_max_execution_time, p_created_at, p_deadline_at,
      p_acceptance_deadline_at, p_token_id, p_token_issued_at, p_request, p_user_token, p_callback_secret, p_max_active
    );
    task_uuid := p_uuid;
    IF outcome = 'created' AND p_key IS NOT NULL THEN
      INSERT INTO idempotency_keys VALUES (p_sub, p_key, p_fingerprint, p_uuid, p_key_expires_at)
      ON CONFLICT (sub, key) DO UPDATE SET
        fingerprint = EXCLUDED.fingerprint, task_uuid = EXCLUDED.task_uuid, expires_at = EXCLUDED.expires_at;
    END IF;
  END $$`
]
