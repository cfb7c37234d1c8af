/**
 * Frozen once released. The lists of statuses follow from `domain/Task`: a new status needs a migration that builds the partial indexes
 * anew, of which `npm run check` reminds. A test compares the columns.
 */
import { isLive, isRunning, notEnded } from "../tasks/TaskColumns.ts"

/** The columns by which a claim of webhooks is fair among users and origins. */
const webhookQueues = [
  `CREATE INDEX webhook_deliveries_due ON webhook_deliveries (is_proven, due_at)
    WHERE due_at IS NOT NULL AND attempts < attempts_allowed`,
  // The queues of a backlog, one for each user and origin. Hashes keep it narrow; queues that share one are one queue.
  `CREATE INDEX webhook_deliveries_queues ON webhook_deliveries (is_proven, hashtext(sub), hashtext(origin), due_at)
    WHERE due_at IS NOT NULL AND attempts < attempts_allowed`,
  // Origins whose last attempt had a response, of which a node that starts knows nothing else.
  `CREATE TABLE webhook_origins (
    origin text PRIMARY KEY,
    proven_at timestamptz NOT NULL
  )`,
  `CREATE INDEX webhook_origins_proven ON webhook_origins (proven_at)`
]

export const statements: ReadonlyArray<string> = [
  // Without CHECKs: Postgres parses and prepares them for each statement that writes. Narrow, because large texts have tables of their own. Status changes are never HOT updates, because partial indexes depend on the
  // status: room in the pages would be of no use.
  `CREATE TABLE tasks (
    uuid uuid PRIMARY KEY,
    sub text NOT NULL,
    status text NOT NULL DEFAULT 'pending',
    revision integer NOT NULL DEFAULT 0,
    -- The revision whose event brought the turn: not each failure and each interrupt brings one.
    turn_revision integer,
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
    callback_format text,
    assistant_id bigint,
    resumed_at timestamptz,
    -- An event of the run that changed nothing else counts too.
    last_event_at timestamptz,
    -- Of a silent run, since its last event: null if it was not handed over again.
    hand_overs integer
  )`,
  // With a condition that no other index has, or the planner takes that of the deadlines for it.
  `CREATE INDEX tasks_active_of_user ON tasks (sub) WHERE ${notEnded}`,
  `CREATE INDEX tasks_deadline ON tasks (deadline_at) WHERE ${isLive}`,
  `CREATE INDEX tasks_acceptance ON tasks (acceptance_deadline_at) WHERE status = 'pending'`,
  // Serves the search for tasks without an actor.
  `CREATE INDEX tasks_running ON tasks (uuid) WHERE ${isRunning}`,
  // Serves count and pages of a list, by status too: including it costs only width.
  `CREATE INDEX tasks_list ON tasks (sub, created_at DESC, uuid DESC) INCLUDE (status)`,
  // Serves the deletion of tasks after the retention period.
  `CREATE INDEX tasks_ended ON tasks (completed_at) WHERE completed_at IS NOT NULL`,
  // Serves the revocation of a token.
  `CREATE INDEX tasks_token ON tasks (token_id) WHERE status = 'processing'`,

  // The request for the core and the task's encrypted secrets. A row loses its secrets at the end, and dead rows of its page make
  // room: half of these updates change no index.
  `CREATE TABLE task_requests (
    task_uuid uuid PRIMARY KEY,
    request text NOT NULL,
    user_token text NOT NULL,
    callback_secret text,
    core_state text,
    tool_results text
  ) WITH (fillfactor = 95)`,
  `CREATE TABLE task_turns (task_uuid uuid PRIMARY KEY, turn text NOT NULL)`,
  `CREATE TABLE task_metadata (task_uuid uuid PRIMARY KEY, metadata jsonb NOT NULL)`,
  // One row for each pair of the metadata; `label` is a hash of user and pair (`ListStatement`). The index alone counts and pages the
  // tasks with a pair, newest first. The rows never change, so each pair is indexed once.
  `CREATE TABLE task_labels (
    label uuid NOT NULL,
    created_at timestamptz NOT NULL,
    task_uuid uuid NOT NULL,
    PRIMARY KEY (label, created_at, task_uuid)
  )`,
  // One row per change of a task. The core's event ids are stored to deduplicate repeated events. The index lacks that of the last event:
  // most tasks have no other, and a repetition of it is recognized without an index.
  `CREATE TABLE task_events (
    task_uuid uuid NOT NULL,
    revision integer NOT NULL,
    type text NOT NULL,
    status text NOT NULL,
    occurred_at timestamptz NOT NULL,
    core_event_id text,
    -- What an extension read from the turn of the event (\`TurnReport\`).
    report jsonb,
    PRIMARY KEY (task_uuid, revision)
  )`,
  `CREATE UNIQUE INDEX task_events_core_event_id ON task_events (task_uuid, core_event_id)
    WHERE core_event_id IS NOT NULL AND ${isLive}`,

  // The extensions that read events as they are written. A trigger of one that is not enabled does nothing.
  `CREATE TABLE task_event_readers (extension text PRIMARY KEY, is_enabled boolean NOT NULL)`,

  // The outbox of stop requests to the core.
  `CREATE TABLE core_stops (
    run_id uuid PRIMARY KEY,
    task_uuid uuid NOT NULL,
    reason text NOT NULL,
    attempts integer NOT NULL DEFAULT 0,
    due_at timestamptz NOT NULL
  )`,
  `CREATE INDEX core_stops_due ON core_stops (due_at)`,

  // Claimed in the transaction of their request's change.
  `CREATE TABLE idempotency_keys (
    sub text NOT NULL,
    key text NOT NULL,
    fingerprint text NOT NULL,
    task_uuid uuid NOT NULL,
    expires_at timestamptz NOT NULL,
    PRIMARY KEY (sub, key)
  )`,
  `CREATE INDEX idempotency_keys_expiry ON idempotency_keys (expires_at)`,

  // One token by its id, or all tokens of a user issued before a moment. A primary key, without which logical replication refuses
  // deletions; no sequence, whose state is not replicated.
  `CREATE TABLE token_revocations (
    row_id uuid DEFAULT gen_random_uuid() PRIMARY KEY,
    token_id text UNIQUE,
    sub text UNIQUE,
    issued_before timestamptz,
    expires_at timestamptz,
    revoked_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT token_revocations_subject CHECK (num_nonnulls(token_id, sub) = 1),
    CONSTRAINT token_revocations_issued_before CHECK ((sub IS NULL) = (issued_before IS NULL))
  )`,
  `CREATE INDEX token_revocations_order ON token_revocations (revoked_at)`,
  `CREATE INDEX token_revocations_expiry ON token_revocations (expires_at) WHERE expires_at IS NOT NULL`,

  // Deliveries are the outbox of webhooks while they are due. The body of a terminal task is built from the task. For an interrupted
  // task, the delivery stores the tool calls immediately, and the turn only when a new turn replaces it, so that no turn is stored twice.
  // `is_proven` says whether the origin was proven when the delivery was inserted and no attempt of it has failed.
  `CREATE TABLE webhook_deliveries (
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
    sub text NOT NULL,
    is_proven boolean NOT NULL DEFAULT false,
    PRIMARY KEY (task_uuid, revision)
  ) WITH (fillfactor = 75)`,
  ...webhookQueues,
  // Deliveries whose last attempt is in flight or lost: a small index, so that no backlog hides them.
  `CREATE INDEX webhook_deliveries_spent ON webhook_deliveries (due_at)
    WHERE due_at IS NOT NULL AND attempts >= attempts_allowed`,
  `CREATE TABLE webhook_attempts (
    task_uuid uuid NOT NULL,
    revision integer NOT NULL,
    number integer NOT NULL,
    started_at timestamptz NOT NULL,
    duration_ms integer,
    response_status integer,
    error text,
    PRIMARY KEY (task_uuid, revision, number)
  ) WITH (fillfactor = 75)`,
  // The redelivery limit by user (GCRA): each redelivery moves `used_until` forward.
  `CREATE TABLE webhook_redeliveries (
    sub text PRIMARY KEY,
    used_until timestamptz NOT NULL
  )`,

  // The last report of each node of a cluster about itself, and the state that an operator wants it to be in.
  `CREATE TABLE nodes (
    instance uuid PRIMARY KEY,
    address text NOT NULL,
    version text NOT NULL,
    started_at timestamptz NOT NULL,
    seen_at timestamptz NOT NULL,
    has_left boolean NOT NULL,
    shards integer[],
    tasks integer NOT NULL,
    next_due_at timestamptz,
    lateness integer NOT NULL,
    wanted text CONSTRAINT nodes_wanted CHECK (wanted IN ('drained', 'taken_in'))
  )`
]
