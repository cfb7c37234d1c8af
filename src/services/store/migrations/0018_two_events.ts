/** Frozen. Two events of a task in one change. */
export const statements: ReadonlyArray<string> = [
  // Nodes of the previous release call the function of 0012, which has no first event. A first event that does not apply is left out.
  `CREATE OR REPLACE FUNCTION commit_task(
    p_uuid uuid, p_run_id uuid, p_core_event_id text, p_at timestamptz,
    p_type text, p_sources text[], p_target text, p_is_terminal boolean, p_needs_token boolean, p_sends_webhook boolean,
    p_stop_reason text, p_error text, p_pending_tool_calls text, p_turn text, p_core_state text,
    p_new_run_id uuid, p_tool_results text, p_user_token text, p_token_id text, p_token_issued_at timestamptz,
    p_key text, p_fingerprint text, p_key_expires_at timestamptz,
    p_first_type text, p_first_sources text[], p_first_target text,
    OUT outcome text, OUT head tasks, OUT has_first boolean
  ) LANGUAGE plpgsql AS $$
  BEGIN
    SELECT t.* INTO head FROM tasks t WHERE t.uuid = p_uuid FOR NO KEY UPDATE;
    has_first := coalesce(p_first_type IS NOT NULL AND head.status = ANY (p_first_sources), false);
    IF head.uuid IS NULL THEN
      outcome := 'Unknown';
      RETURN;
    ELSIF p_core_event_id IS NOT NULL AND EXISTS (
      SELECT FROM task_events e WHERE e.task_uuid = p_uuid AND e.core_event_id = p_core_event_id
    ) THEN
      outcome := 'NoEffect';
      RETURN;
    ELSIF head.completed_at IS NOT NULL OR head.run_id <> p_run_id THEN
      outcome := 'Superseded';
      RETURN;
    ELSIF (CASE WHEN has_first THEN p_first_target ELSE head.status END) <> ALL (p_sources) THEN
      outcome := 'NoEffect';
      RETURN;
    ELSIF p_needs_token AND (
      EXISTS (SELECT FROM token_revocations r WHERE r.token_id = head.token_id) OR EXISTS (
        SELECT FROM token_revocations r WHERE r.sub = head.sub
          AND (head.token_issued_at IS NULL OR head.token_issued_at < r.issued_before))
    ) THEN
      outcome := 'Revoked';
      RETURN;
    END IF;

    outcome := 'Applied';
    UPDATE tasks t SET
      status = p_target,
      revision = t.revision + CASE WHEN has_first THEN 2 ELSE 1 END,
      error = p_error,
      pending_tool_calls = p_pending_tool_calls,
      completed_at = CASE WHEN p_is_terminal THEN p_at END,
      run_id = coalesce(p_new_run_id, t.run_id),
      token_id = CASE WHEN p_new_run_id IS NULL THEN t.token_id ELSE p_token_id END,
      token_issued_at = CASE WHEN p_new_run_id IS NULL THEN t.token_issued_at ELSE p_token_issued_at END
    WHERE t.uuid = p_uuid RETURNING t.* INTO head;
    IF has_first THEN
      INSERT INTO task_events (task_uuid, revision, type, status, occurred_at)
      VALUES (p_uuid, head.revision - 1, p_first_type, p_first_target, p_at);
    END IF;
    INSERT INTO task_events (task_uuid, revision, type, status, occurred_at, core_event_id)
    VALUES (p_uuid, head.revision, p_type, p_target, p_at, p_core_event_id);

    IF p_turn IS NOT NULL THEN
      IF head.callback_url IS NOT NULL THEN
        -- Copies the turn that is about to be replaced into the deliveries that report it.
        UPDATE webhook_deliveries d
        SET turn = coalesce((SELECT u.turn FROM task_turns u WHERE u.task_uuid = p_uuid), 'null')
        WHERE d.task_uuid = p_uuid AND d.status = 'interrupted' AND d.turn IS NULL;
      END IF;
      INSERT INTO task_turns AS u (task_uuid, turn) VALUES (p_uuid, p_turn)
      ON CONFLICT (task_uuid) DO UPDATE SET turn = EXCLUDED.turn;
    END IF;

    IF p_sends_webhook AND head.callback_url IS NOT NULL THEN
      INSERT INTO webhook_deliveries (
        task_uuid, revision, status, url, origin, pending_tool_calls, signed, callback_secret, created_at, due_at
      )
      SELECT p_uuid, head.revision, p_target, head.callback_url,
        regexp_replace(head.callback_url, '^(\\w+://)(?:[^/?#]*@)?([^/?#]*).*$', '\\1\\2'),
        p_pending_tool_calls, r.callback_secret IS NOT NULL, r.callback_secret, p_at, p_at
      FROM (SELECT) AS one LEFT JOIN task_requests r ON r.task_uuid = p_uuid;
    END IF;

    IF p_is_terminal THEN
      UPDATE task_requests r SET user_token = '', callback_secret = NULL, core_state = NULL, tool_results = NULL
      WHERE r.task_uuid = p_uuid AND octet_length(r.request) <= 262144;
      IF NOT FOUND THEN
        DELETE FROM task_requests r WHERE r.task_uuid = p_uuid;
      END IF;
    ELSIF p_target = 'interrupted' THEN
      UPDATE task_requests r SET core_state = p_core_state, tool_results = NULL WHERE r.task_uuid = p_uuid;
    ELSIF p_new_run_id IS NOT NULL THEN
      UPDATE task_requests r SET tool_results = p_tool_results, user_token = p_user_token WHERE r.task_uuid = p_uuid;
    END IF;

    IF p_stop_reason IS NOT NULL THEN
      INSERT INTO core_stops (run_id, task_uuid, reason, due_at) VALUES (head.run_id, p_uuid, p_stop_reason, p_at)
      ON CONFLICT DO NOTHING;
    END IF;
    IF p_key IS NOT NULL THEN
      INSERT INTO idempotency_keys (sub, key, fingerprint, task_uuid, expires_at)
      VALUES (head.sub, p_key, p_fingerprint, p_uuid, p_key_expires_at)
      ON CONFLICT (sub, key) DO UPDATE SET
        fingerprint = EXCLUDED.fingerprint, task_uuid = EXCLUDED.task_uuid, expires_at = EXCLUDED.expires_at;
    END IF;
  END $$`
]
