/** Frozen. The format of a task's webhooks; null is the task itself. Creates a task with its metadata and format. */
export const statements: ReadonlyArray<string> = [
  `ALTER TABLE tasks ADD COLUMN callback_format text`,

  // Nodes of the previous version still call the function without metadata and format.
  `CREATE FUNCTION create_task(
    p_uuid uuid, p_sub text, p_run_id uuid, p_callback_url text, p_max_execution_time integer,
    p_created_at timestamptz, p_deadline_at timestamptz, p_acceptance_deadline_at timestamptz,
    p_token_id text, p_token_issued_at timestamptz,
    p_request text, p_user_token text, p_callback_secret text, p_max_active integer,
    p_key text, p_fingerprint text, p_key_expires_at timestamptz, p_metadata jsonb, p_callback_format text,
    OUT outcome text, OUT task_uuid uuid
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
    task_uuid := p_uuid;
    IF (
      SELECT count(*) FROM (
        SELECT FROM tasks
        WHERE sub = p_sub AND status IN ('pending', 'processing', 'interrupted')
        LIMIT p_max_active
      ) active
    ) >= p_max_active THEN
      outcome := 'too_many_active_tasks';
      RETURN;
    END IF;
    outcome := 'created';
    INSERT INTO tasks (
      uuid, sub, run_id, callback_url, max_execution_time, created_at, deadline_at, acceptance_deadline_at,
      token_id, token_issued_at, callback_format
    ) VALUES (
      p_uuid, p_sub, p_run_id, p_callback_url, p_max_execution_time, p_created_at, p_deadline_at,
      p_acceptance_deadline_at, p_token_id, p_token_issued_at, p_callback_format
    );
    INSERT INTO task_requests (task_uuid, request, user_token, callback_secret)
    VALUES (p_uuid, p_request, p_user_token, p_callback_secret);
    IF p_metadata IS NOT NULL THEN
      INSERT INTO task_metadata (task_uuid, by_user) VALUES (p_uuid, jsonb_build_object(p_sub, p_metadata));
    END IF;
    IF p_key IS NOT NULL THEN
      INSERT INTO idempotency_keys VALUES (p_sub, p_key, p_fingerprint, p_uuid, p_key_expires_at)
      ON CONFLICT (sub, key) DO UPDATE SET
        fingerprint = EXCLUDED.fingerprint, task_uuid = EXCLUDED.task_uuid, expires_at = EXCLUDED.expires_at;
    END IF;
  END $$`
]
