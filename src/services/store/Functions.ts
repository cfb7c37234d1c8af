/**
 * The functions of the database, each with one definition: every migration replaces them all. They are called with named arguments,
 * so that nodes of the release before can still call them: a new argument has a default.
 */
import { labelOf } from "./ListStatement.ts"
import { given } from "./TaskColumns.ts"

/** Answers a repeated key, checks the limit of active tasks and inserts, in one round trip and atomically per user. */
const createTask = `CREATE FUNCTION create_task(
  p_request text, p_user_token text, p_callback_secret text, p_metadata jsonb, p_max_active integer,
  p_key text, p_fingerprint text, p_key_expires_at timestamptz,
  ${given.map(({ name, type }) => `p_${name} ${type} DEFAULT NULL`).join(", ")},
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
  INSERT INTO tasks (${given.map(({ name }) => name).join(", ")})
  VALUES (${given.map(({ name }) => `p_${name}`).join(", ")});
  INSERT INTO task_requests (task_uuid, request, user_token, callback_secret)
  VALUES (p_uuid, p_request, p_user_token, p_callback_secret);
  IF p_metadata IS NOT NULL THEN
    INSERT INTO task_metadata (task_uuid, metadata) VALUES (p_uuid, p_metadata);
    INSERT INTO task_labels (label, created_at, task_uuid)
    SELECT ${labelOf("p_sub", "key", "value")}, p_created_at, p_uuid FROM jsonb_each_text(p_metadata);
  END IF;
  IF p_key IS NOT NULL THEN
    INSERT INTO idempotency_keys (sub, key, fingerprint, task_uuid, expires_at)
    VALUES (p_sub, p_key, p_fingerprint, p_uuid, p_key_expires_at)
    ON CONFLICT (sub, key) DO UPDATE SET
      fingerprint = EXCLUDED.fingerprint, task_uuid = EXCLUDED.task_uuid, expires_at = EXCLUDED.expires_at;
  END IF;
END $$`

/** Writes one event, after a first one if that applies: a first event that does not apply is left out. */
const commitTask = `CREATE FUNCTION commit_task(
  p_uuid uuid, p_run_id uuid, p_core_event_id text, p_at timestamptz,
  p_type text, p_sources text[], p_target text, p_is_terminal boolean, p_needs_token boolean, p_sends_webhook boolean,
  p_stop_reason text, p_error text, p_pending_tool_calls text, p_turn text, p_core_state text,
  p_new_run_id uuid, p_tool_results text, p_user_token text, p_token_id text, p_token_issued_at timestamptz,
  p_key text, p_fingerprint text, p_key_expires_at timestamptz,
  p_first_type text, p_first_sources text[], p_first_target text, p_model text, p_tokens bigint[],
  p_books_usage boolean,
  OUT outcome text, OUT head tasks, OUT has_first boolean
) LANGUAGE plpgsql AS $$
DECLARE
  active bigint;
  reported bigint[];
  booked bigint[];
  more bigint[];
  is_booked boolean;
  more_seconds bigint;
BEGIN
  SELECT t.* INTO head FROM tasks t WHERE t.uuid = p_uuid FOR NO KEY UPDATE;
  has_first := coalesce(p_first_type IS NOT NULL AND head.status = ANY (p_first_sources), false);
  IF head.uuid IS NULL THEN
    outcome := 'Unknown';
  ELSIF head.completed_at IS NOT NULL THEN
    -- The index does not have the last event of a task.
    outcome := CASE WHEN EXISTS (
      SELECT FROM task_events e WHERE e.task_uuid = p_uuid AND e.revision = head.revision
        AND e.core_event_id = p_core_event_id
    ) OR EXISTS (
      SELECT FROM task_events e WHERE e.task_uuid = p_uuid AND e.core_event_id = p_core_event_id
        AND e.status IN ('processing', 'interrupted')
    ) THEN 'NoEffect' ELSE 'Superseded' END;
  ELSIF p_core_event_id IS NOT NULL AND EXISTS (
    SELECT FROM task_events e WHERE e.task_uuid = p_uuid AND e.core_event_id = p_core_event_id
      AND e.status IN ('processing', 'interrupted')
  ) THEN
    outcome := 'NoEffect';
  ELSIF head.run_id <> p_run_id THEN
    outcome := 'Superseded';
  ELSIF (CASE WHEN has_first THEN p_first_target ELSE head.status END) <> ALL (p_sources) THEN
    outcome := 'NoEffect';
  ELSIF p_needs_token AND (
    EXISTS (SELECT FROM token_revocations r WHERE r.token_id = head.token_id) OR EXISTS (
      SELECT FROM token_revocations r WHERE r.sub = head.sub
        AND (head.token_issued_at IS NULL OR head.token_issued_at < r.issued_before))
  ) THEN
    outcome := 'Revoked';
  END IF;
  IF outcome IS NOT NULL THEN
    -- An event that changes nothing is still a sign of life of its run.
    IF outcome = 'NoEffect' AND p_core_event_id IS NOT NULL AND head.status = 'processing' AND head.run_id = p_run_id THEN
      UPDATE tasks t SET resumed_at = NULL, silence_from = p_at, silent_since = NULL, hand_overs = NULL
      WHERE t.uuid = p_uuid RETURNING t.* INTO head;
    END IF;
    RETURN;
  END IF;

  outcome := 'Applied';
  active := CASE
    WHEN head.status = 'processing' AND p_target <> 'processing'
      THEN head.active_us + (extract(epoch FROM p_at) * 1000000)::bigint
    WHEN head.status <> 'processing' AND p_target = 'processing'
      THEN coalesce(head.active_us, 0) - (extract(epoch FROM p_at) * 1000000)::bigint
    ELSE head.active_us END;
  is_booked := p_books_usage
    AND (p_is_terminal OR (p_target = 'interrupted' AND (p_tokens IS NOT NULL OR head.usage IS NOT NULL)));
  IF p_tokens IS NOT NULL OR head.usage IS NOT NULL THEN
    reported := coalesce(p_tokens, head.usage[1:5]);
    booked := coalesce(head.usage[6:11], '{0,0,0,0,0,NULL}');
    IF is_booked THEN
      more := ARRAY[
        greatest(reported[1] - booked[1], 0), greatest(reported[2] - booked[2], 0), greatest(reported[3] - booked[3], 0),
        greatest(reported[4] - booked[4], 0), greatest(reported[5] - booked[5], 0)
      ];
      more_seconds := greatest(active / 1000000 - coalesce(booked[6], 0), 0);
      booked := ARRAY[
        booked[1] + more[1], booked[2] + more[2], booked[3] + more[3], booked[4] + more[4], booked[5] + more[5],
        coalesce(booked[6], 0) + more_seconds
      ];
    END IF;
  ELSIF is_booked THEN
    more_seconds := greatest(active / 1000000, 0);
  END IF;
  UPDATE tasks t SET
    status = p_target,
    revision = t.revision + CASE WHEN has_first THEN 2 ELSE 1 END,
    error = p_error,
    pending_tool_calls = p_pending_tool_calls,
    completed_at = CASE WHEN p_is_terminal THEN p_at END,
    run_id = coalesce(p_new_run_id, t.run_id),
    resumed_at = CASE WHEN p_new_run_id IS NOT NULL THEN p_at END,
    silence_from = NULL,
    silent_since = NULL,
    hand_overs = NULL,
    active_us = active,
    usage = reported || booked,
    model = CASE WHEN p_model IS NULL AND p_tokens IS NULL THEN t.model ELSE p_model END,
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
      task_uuid, revision, status, sub, url, origin, is_proven, pending_tool_calls, signed, callback_secret, created_at,
      due_at
    )
    SELECT p_uuid, head.revision, p_target, head.sub, head.callback_url, target.origin,
      EXISTS (SELECT FROM webhook_origins o WHERE o.origin = target.origin),
      p_pending_tool_calls, r.callback_secret IS NOT NULL, r.callback_secret, p_at, p_at
    FROM (
      SELECT regexp_replace(head.callback_url, '^(\\w+://)(?:[^/?#]*@)?([^/?#]*).*$', '\\1\\2') AS origin
    ) AS target LEFT JOIN task_requests r ON r.task_uuid = p_uuid;
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

  IF is_booked THEN
    INSERT INTO usage_outbox (task_uuid, assistant_id, booked_at, active_seconds, sub, model, ended, tokens)
    VALUES (
      p_uuid, head.assistant_id, p_at, more_seconds, head.sub, head.model, CASE WHEN p_is_terminal THEN p_target END, more
    );
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

/** Drops what has one of their names, whatever its arguments: the definitions follow. */
const dropAll = `DO $$
DECLARE
  old record;
BEGIN
  FOR old IN
    SELECT oid::regprocedure AS name FROM pg_proc
    WHERE proname IN ('create_task', 'commit_task') AND pg_function_is_visible(oid)
  LOOP
    EXECUTE 'DROP FUNCTION ' || old.name;
  END LOOP;
END $$`

export const functions: ReadonlyArray<string> = [
  dropAll,
  createTask,
  commitTask
]
