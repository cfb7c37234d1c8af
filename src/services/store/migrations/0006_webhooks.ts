/** Frozen. Deliveries of webhooks, which are the outbox while they are due, and the ledger of their attempts. */
export const statements: ReadonlyArray<string> = [
  // The body is made from the task, which is final once it has ended. What an interrupted task said is kept here: its calls
  // at once, its turn as soon as another takes the place of it (`turn` is null until then), so that none is stored twice.
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
  // Those whose last attempt is under way, or lost: a few, which no backlog hides.
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
