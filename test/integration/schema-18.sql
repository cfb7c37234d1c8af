-- Frozen: what the migrations before the first release made, the last of which was 18.

CREATE TABLE tasks (
  uuid uuid PRIMARY KEY,
  sub text NOT NULL,
  status text NOT NULL DEFAULT 'pending',
  revision integer NOT NULL DEFAULT 0,
  run_id uuid NOT NULL,
  error text,
  pending_tool_calls text,
  callback_url text,
  max_execution_time integer NOT NULL,
  created_at timestamptz NOT NULL,
  completed_at timestamptz,
  deadline_at timestamptz NOT NULL,
  acceptance_deadline_at timestamptz,
  token_id text NOT NULL,
  token_issued_at timestamptz,
  CONSTRAINT tasks_status CHECK (
    status IN ('pending', 'processing', 'interrupted', 'completed', 'failed', 'canceled')
),
  CONSTRAINT tasks_completed_at CHECK (
    (completed_at IS NULL) = (status IN ('pending', 'processing', 'interrupted'))
),
  CONSTRAINT tasks_pending_tool_calls CHECK ((pending_tool_calls IS NOT NULL) = (status = 'interrupted'))
) WITH (fillfactor = 75);

CREATE INDEX tasks_of_user ON tasks (sub, created_at DESC, uuid DESC);

CREATE INDEX tasks_active_of_user ON tasks (sub) WHERE status IN ('pending', 'processing', 'interrupted');

CREATE INDEX tasks_live ON tasks (uuid) WHERE status IN ('pending', 'processing', 'interrupted');

CREATE INDEX tasks_deadline ON tasks (deadline_at) WHERE status IN ('pending', 'processing', 'interrupted');

CREATE INDEX tasks_acceptance ON tasks (acceptance_deadline_at) WHERE status = 'pending';

CREATE TABLE task_requests (
  task_uuid uuid PRIMARY KEY,
  request text NOT NULL,
  user_token text NOT NULL,
  callback_secret text,
  core_state text,
  tool_results text
);

CREATE TABLE task_turns (task_uuid uuid PRIMARY KEY, turn text NOT NULL);

CREATE TABLE task_events (
  task_uuid uuid NOT NULL,
  revision integer NOT NULL,
  type text NOT NULL,
  status text NOT NULL,
  occurred_at timestamptz NOT NULL,
  core_event_id text,
  PRIMARY KEY (task_uuid, revision)
);

CREATE UNIQUE INDEX task_events_core_event_id ON task_events (task_uuid, core_event_id)
  WHERE core_event_id IS NOT NULL;

CREATE TABLE core_stops (
  run_id uuid PRIMARY KEY,
  task_uuid uuid NOT NULL,
  reason text NOT NULL,
  attempts integer NOT NULL DEFAULT 0,
  due_at timestamptz NOT NULL
);

CREATE INDEX core_stops_due ON core_stops (due_at);

CREATE FUNCTION create_task(
  p_uuid uuid, p_sub text, p_run_id uuid, p_callback_url text, p_max_execution_time integer,
  p_created_at timestamptz, p_deadline_at timestamptz, p_acceptance_deadline_at timestamptz,
  p_token_id text, p_token_issued_at timestamptz,
  p_request text, p_user_token text, p_callback_secret text, p_max_active integer
) RETURNS text LANGUAGE plpgsql AS $$
  BEGIN
  PERFORM pg_advisory_xact_lock(hashtextextended('async-task-service:' || p_sub, 0));
  IF (
    SELECT count(*) FROM (
      SELECT FROM tasks
      WHERE sub = p_sub AND status IN ('pending', 'processing', 'interrupted')
      LIMIT p_max_active
    ) active
) >= p_max_active THEN
    RETURN 'too_many_active_tasks';
  END IF;
  INSERT INTO tasks (
    uuid, sub, run_id, callback_url, max_execution_time, created_at, deadline_at, acceptance_deadline_at,
    token_id, token_issued_at
) VALUES (
    p_uuid, p_sub, p_run_id, p_callback_url, p_max_execution_time, p_created_at, p_deadline_at,
    p_acceptance_deadline_at, p_token_id, p_token_issued_at
);
  INSERT INTO task_requests (task_uuid, request, user_token, callback_secret)
  VALUES (p_uuid, p_request, p_user_token, p_callback_secret);
  RETURN 'created';
  END $$;

CREATE TABLE idempotency_keys (
  sub text NOT NULL,
  key text NOT NULL,
  fingerprint text NOT NULL,
  task_uuid uuid NOT NULL,
  expires_at timestamptz NOT NULL,
  PRIMARY KEY (sub, key)
);

CREATE INDEX idempotency_keys_expiry ON idempotency_keys (expires_at);

CREATE FUNCTION create_task(
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
  END $$;

CREATE TABLE token_revocations (
  token_id text UNIQUE,
  sub text UNIQUE,
  issued_before timestamptz,
  expires_at timestamptz,
  revoked_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  CONSTRAINT token_revocations_subject CHECK (num_nonnulls(token_id, sub) = 1),
  CONSTRAINT token_revocations_issued_before CHECK ((sub IS NULL) = (issued_before IS NULL))
);

CREATE INDEX token_revocations_order ON token_revocations (revoked_at);

CREATE INDEX token_revocations_expiry ON token_revocations (expires_at) WHERE expires_at IS NOT NULL;

CREATE TABLE webhook_deliveries (
  task_uuid uuid NOT NULL,
  revision integer NOT NULL,
  status text NOT NULL,
  url text NOT NULL,
  origin text NOT NULL,
  pending_tool_calls text,
  turn text,
  signed boolean NOT NULL,
  callback_secret text,
  attempts integer NOT NULL DEFAULT 0,
  attempts_allowed integer NOT NULL DEFAULT 5,
  sending boolean NOT NULL DEFAULT false,
  created_at timestamptz NOT NULL,
  due_at timestamptz,
  delivered_at timestamptz,
  PRIMARY KEY (task_uuid, revision)
) WITH (fillfactor = 75);

CREATE INDEX webhook_deliveries_due ON webhook_deliveries (due_at)
  WHERE due_at IS NOT NULL AND attempts < attempts_allowed;

CREATE INDEX webhook_deliveries_spent ON webhook_deliveries (due_at)
  WHERE due_at IS NOT NULL AND attempts >= attempts_allowed;

CREATE INDEX webhook_deliveries_ledger ON webhook_deliveries (created_at);

CREATE INDEX webhook_deliveries_of_origin ON webhook_deliveries (origin, created_at);

CREATE INDEX webhook_deliveries_failed ON webhook_deliveries (created_at)
  WHERE due_at IS NULL AND delivered_at IS NULL;

CREATE TABLE webhook_attempts (
  task_uuid uuid NOT NULL,
  revision integer NOT NULL,
  number integer NOT NULL,
  started_at timestamptz NOT NULL,
  duration_ms integer,
  response_status integer,
  error text,
  PRIMARY KEY (task_uuid, revision, number)
) WITH (fillfactor = 75);

CREATE TABLE nodes (
  instance uuid PRIMARY KEY,
  address text NOT NULL,
  version text NOT NULL,
  started_at timestamptz NOT NULL,
  seen_at timestamptz NOT NULL,
  has_left boolean NOT NULL,
  shards integer[],
  tasks integer NOT NULL,
  next_due_at timestamptz,
  lateness integer NOT NULL
);

CREATE TABLE webhook_redeliveries (
  sub text PRIMARY KEY,
  used_until timestamptz NOT NULL
);

CREATE TABLE recovery_trials (
  run_id uuid PRIMARY KEY,
  node uuid NOT NULL,
  together integer NOT NULL,
  losses integer NOT NULL DEFAULT 0,
  losses_alone integer NOT NULL DEFAULT 0,
  began_at timestamptz NOT NULL DEFAULT statement_timestamp()
);

CREATE TABLE task_metadata (task_uuid uuid PRIMARY KEY, by_user jsonb NOT NULL);

CREATE INDEX task_metadata_by_user ON task_metadata USING gin (by_user jsonb_path_ops) WITH (fastupdate = off);

ALTER TABLE task_requests SET (fillfactor = 70);

CREATE OR REPLACE FUNCTION commit_task(
  p_uuid uuid, p_run_id uuid, p_core_event_id text, p_at timestamptz,
  p_type text, p_sources text[], p_target text, p_is_terminal boolean, p_needs_token boolean, p_sends_webhook boolean,
  p_stop_reason text, p_error text, p_pending_tool_calls text, p_turn text, p_core_state text,
  p_new_run_id uuid, p_tool_results text, p_user_token text, p_token_id text, p_token_issued_at timestamptz,
  p_key text, p_fingerprint text, p_key_expires_at timestamptz,
  OUT outcome text, OUT head tasks
) LANGUAGE plpgsql AS $$
  BEGIN
  SELECT t.* INTO head FROM tasks t WHERE t.uuid = p_uuid FOR NO KEY UPDATE;
  IF NOT FOUND THEN
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
  ELSIF head.status <> ALL (p_sources) THEN
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
    revision = t.revision + 1,
    error = p_error,
    pending_tool_calls = p_pending_tool_calls,
    completed_at = CASE WHEN p_is_terminal THEN p_at END,
    run_id = coalesce(p_new_run_id, t.run_id),
    token_id = CASE WHEN p_new_run_id IS NULL THEN t.token_id ELSE p_token_id END,
    token_issued_at = CASE WHEN p_new_run_id IS NULL THEN t.token_issued_at ELSE p_token_issued_at END
  WHERE t.uuid = p_uuid RETURNING t.* INTO head;
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
      regexp_replace(head.callback_url, '^(\w+://)(?:[^/?#]*@)?([^/?#]*).*$', '\1\2'),
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
  END $$;

CREATE TABLE facade_legs (
  task_uuid uuid NOT NULL,
  leg integer NOT NULL,
  request text NOT NULL,
  output text,
  created_at timestamptz NOT NULL,
  PRIMARY KEY (task_uuid, leg)
);

ALTER TABLE tasks ADD COLUMN callback_format text;

CREATE FUNCTION create_task(
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
  END $$;

CREATE TABLE history (
  name text NOT NULL,
  minute timestamptz NOT NULL,
  value bigint NOT NULL,
  PRIMARY KEY (name, minute)
);

ALTER TABLE nodes ADD COLUMN wanted text CONSTRAINT nodes_wanted CHECK (wanted IN ('drained', 'taken_in'));

ALTER TABLE tasks SET (fillfactor = 100);

ALTER TABLE task_requests SET (fillfactor = 95);

CREATE OR REPLACE FUNCTION commit_task(
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
      regexp_replace(head.callback_url, '^(\w+://)(?:[^/?#]*@)?([^/?#]*).*$', '\1\2'),
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
  END $$;

DROP INDEX tasks_of_user;

CREATE INDEX tasks_running ON tasks (uuid) WHERE status IN ('pending', 'processing');

CREATE INDEX tasks_list ON tasks (sub, created_at DESC, uuid DESC) INCLUDE (status);

CREATE INDEX tasks_ended ON tasks (completed_at) WHERE completed_at IS NOT NULL;

CREATE INDEX tasks_token ON tasks (token_id) WHERE status = 'processing';

CREATE INDEX tasks_by_creation ON tasks (created_at, uuid) INCLUDE (status);

CREATE INDEX tasks_failed ON tasks (completed_at DESC, uuid DESC) WHERE status = 'failed';

CREATE INDEX webhook_deliveries_failed_of_origin ON webhook_deliveries (origin, created_at) WHERE due_at IS NULL AND delivered_at IS NULL;

CREATE TABLE async_task_service_migrations (
  migration_id integer PRIMARY KEY,
  created_at timestamptz NOT NULL DEFAULT now(),
  name text NOT NULL
);

INSERT INTO async_task_service_migrations (migration_id, name) VALUES
  (1, 'tasks'),
  (2, 'idempotency_keys'),
  (3, 'list'),
  (4, 'retention'),
  (5, 'token_revocations'),
  (6, 'webhooks'),
  (7, 'nodes'),
  (8, 'webhook_redeliveries'),
  (9, 'recovery_trials'),
  (10, 'commit_task'),
  (12, 'requests'),
  (14, 'facade_legs'),
  (15, 'callback_formats'),
  (16, 'operators'),
  (17, 'storage'),
  (18, 'two_events');
