/** Frozen. It does not import the domain, so that later changes of the domain cannot alter it. A test compares the two. */
export const statements: ReadonlyArray<string> = [
  // Narrow and updated often: the fill factor leaves room for updates, and large texts have their own tables.
  `CREATE TABLE tasks (
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
  ) WITH (fillfactor = 75)`,
  `CREATE INDEX tasks_of_user ON tasks (sub, created_at DESC, uuid DESC)`,
  `CREATE INDEX tasks_active_of_user ON tasks (sub) WHERE status IN ('pending', 'processing', 'interrupted')`,
  `CREATE INDEX tasks_live ON tasks (uuid) WHERE status IN ('pending', 'processing', 'interrupted')`,
  `CREATE INDEX tasks_deadline ON tasks (deadline_at) WHERE status IN ('pending', 'processing', 'interrupted')`,
  `CREATE INDEX tasks_acceptance ON tasks (acceptance_deadline_at) WHERE status = 'pending'`,

  // The request for the core and the task's encrypted secrets. Deleted when the task ends.
  `CREATE TABLE task_requests (
    task_uuid uuid PRIMARY KEY,
    request text NOT NULL,
    user_token text NOT NULL,
    callback_secret text,
    core_state text,
    tool_results text
  )`,
  `CREATE TABLE task_turns (task_uuid uuid PRIMARY KEY, turn text NOT NULL)`,

  // One row per change of a task. The core's event ids are stored to deduplicate repeated events.
  `CREATE TABLE task_events (
    task_uuid uuid NOT NULL,
    revision integer NOT NULL,
    type text NOT NULL,
    status text NOT NULL,
    occurred_at timestamptz NOT NULL,
    core_event_id text,
    PRIMARY KEY (task_uuid, revision)
  )`,
  `CREATE UNIQUE INDEX task_events_core_event_id ON task_events (task_uuid, core_event_id)
    WHERE core_event_id IS NOT NULL`,

  // The outbox of stop requests to the core.
  `CREATE TABLE core_stops (
    run_id uuid PRIMARY KEY,
    task_uuid uuid NOT NULL,
    reason text NOT NULL,
    attempts integer NOT NULL DEFAULT 0,
    due_at timestamptz NOT NULL
  )`,
  `CREATE INDEX core_stops_due ON core_stops (due_at)`,

  // Checks the limit of active tasks and inserts, in one round trip and atomically per user.
  `CREATE FUNCTION create_task(
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
  END $$`
]
