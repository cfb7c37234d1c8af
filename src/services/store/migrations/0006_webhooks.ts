/** Frozen. Webhook deliveries, which are the outbox while they are due, and the log of their attempts. */
export const statements: ReadonlyArray<string> = [
  // The body of a terminal task is built from the task. For an interrupted task, the delivery stores the tool calls
  // immediately, and the turn only when a new turn replaces it, so that no turn is stored twice.
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
    PRIMARY KEY (task_uuid, revision)
  ) WITH (fillfactor = 75)`,
  `CREATE INDEX webhook_deliveries_due ON webhook_deliveries (due_at)
    WHERE due_at IS NOT NULL AND attempts < attempts_allowed`,
  // Deliveries whose last attempt is in flight or lost: a small index, so that no backlog hides them.
  `CREATE INDEX webhook_deliveries_spent ON webhook_deliveries (due_at)
    WHERE due_at IS NOT NULL AND attempts >= attempts_allowed`,
  `CREATE INDEX webhook_deliveries_ledger ON webhook_deliveries (created_at)`,
  `CREATE INDEX webhook_deliveries_of_origin ON webhook_deliveries (origin, created_at)`,
  `CREATE INDEX webhook_deliveries_failed ON webhook_deliveries (created_at)
    WHERE due_at IS NULL AND delivered_at IS NULL`,
  `CREATE TABLE webhook_attempts (
    task_uuid uuid NOT NULL,
    revision integer NOT NULL,
    number integer NOT NULL,
    started_at timestamptz NOT NULL,
    duration_ms integer,
    response_status integer,
    error text,
    PRIMARY KEY (task_uuid, revision, number)
  ) WITH (fillfactor = 75)`
]
