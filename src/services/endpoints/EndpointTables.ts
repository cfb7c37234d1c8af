/**
 * The tables of webhook endpoints in Postgres, and the trigger that fills them in the transaction of a change: one body for each format that an
 * endpoint wants, and one delivery for each endpoint. A disabled endpoint receives deliveries too, so that it can go on later.
 */
import type { UserData } from "../Extensions.ts"
import type { Tables } from "../store/schema/Migrations.ts"
import { attempts, eventStatuses, eventTypes, limits } from "./Endpoint.ts"

const statuses = eventStatuses.map((status) => `'${status}'`).join(", ")

const iso = (moment: string) => `to_char(${moment} AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')`
const text = (expression: string) => `coalesce(to_json(${expression})::text, 'null')`
const quoted = (expression: string) => `coalesce('"' || ${expression} || '"', 'null')`

/** JSON of the task as `GET /api/tasks/{uuid}` returns it, without the closing brace. An interrupted task has no error and no end. */
const summary = `'{"uuid":"' || w.task_uuid || '","status":"' || w.status || '","error":' || ${text("w.error")}
  || ',"created_at":"' || ${iso("w.created_at")} || '","completed_at":' || ${quoted(iso("w.completed_at"))}
  || CASE WHEN w.status = 'interrupted' THEN ',"pending_tool_calls":' || coalesce(w.pending_tool_calls, '[]') ELSE '' END`
const thin = `'{"uuid":"' || w.task_uuid || '","sub":' || ${text("w.sub")} || ',"status":"' || w.status
  || '","metadata":' || coalesce(w.metadata::text, '{}') || '}'`

const wrap = (task: string) =>
  `CASE WHEN w.format = 'cloudevents' THEN '{"task":' || (${task}) || '}' ELSE
    '{"id":"evt_' || w.task_uuid || '-' || w.revision || '","type":"task.' || w.status || '","created_at":"' || ${
    iso("w.occurred_at")
  } || '","data":{"task":' || (${task}) || '}}' END`

/**
 * The turn is read only where a body may have it, and no body is composed of texts that are too long for it. `OFFSET 0` keeps Postgres from
 * composing it again wherever it is named.
 */
const onEvents =
  `IF EXISTS (SELECT FROM webhook_endpoints) AND EXISTS (SELECT FROM new_events WHERE status IN (${statuses})) THEN
    WITH wanted AS MATERIALIZED (
      SELECT w.id, w.format, e.task_uuid, e.revision, e.status, e.occurred_at, t.sub, t.error, t.created_at,
        t.completed_at, t.pending_tool_calls, m.metadata
      FROM new_events e JOIN tasks t ON t.uuid = ANY (ARRAY[e.task_uuid])
      LEFT JOIN task_metadata m ON m.task_uuid = ANY (ARRAY[e.task_uuid])
      JOIN webhook_endpoints w ON 'task.' || e.status = ANY (w.events)
        AND (w.assistant_ids IS NULL OR t.assistant_id = ANY (w.assistant_ids))
        AND (w.metadata IS NULL OR m.metadata @> w.metadata)
      WHERE e.status IN (${statuses})
    ), bodies AS (
      INSERT INTO webhook_endpoint_bodies (task_uuid, revision, format, created_at, bytes, body, sub)
      SELECT w.task_uuid, w.revision, w.format, w.occurred_at, octet_length(made.body), made.body, w.sub
      FROM (SELECT DISTINCT ON (task_uuid, revision, format) * FROM wanted) AS w
      LEFT JOIN task_turns u ON w.format = 'full' AND u.task_uuid = ANY (ARRAY[w.task_uuid])
      CROSS JOIN LATERAL (SELECT CASE
        WHEN w.format = 'thin' OR coalesce(octet_length(w.pending_tool_calls), 0) + coalesce(octet_length(u.turn), 0)
          > ${limits.body} THEN ${thin}
        WHEN w.format = 'full' THEN ${summary} || ',"turn":' || coalesce(u.turn, 'null') || '}'
        ELSE ${summary} || '}' END AS task) AS shown
      CROSS JOIN LATERAL (SELECT ${wrap("shown.task")} AS body OFFSET 0) AS whole
      CROSS JOIN LATERAL (
        SELECT CASE WHEN octet_length(whole.body) > ${limits.body} THEN ${
    wrap(thin)
  } ELSE whole.body END AS body OFFSET 0
      ) AS made
      ON CONFLICT DO NOTHING
    )
    INSERT INTO webhook_endpoint_deliveries (
      endpoint_id, task_uuid, revision, status, format, created_at, due_at, attempts_allowed
    )
    SELECT id, task_uuid, revision, status, format, occurred_at, occurred_at, ${attempts} FROM wanted
    ON CONFLICT DO NOTHING;
  END IF;`

export const tables: Tables = {
  name: "endpoints",
  migrations: [[
    `CREATE TABLE webhook_endpoints (
      id text PRIMARY KEY,
      url text,
      origin text,
      description text,
      events text[] NOT NULL DEFAULT '{${eventTypes.join(",")}}',
      assistant_ids bigint[],
      metadata jsonb,
      format text NOT NULL,
      secret text NOT NULL,
      old_secret text,
      old_secret_until timestamptz,
      disabled_at timestamptz,
      disabled_reason text,
      failing_since timestamptz,
      succeeded_at timestamptz,
      -- Whether the last attempt had a response.
      is_proven boolean NOT NULL DEFAULT false,
      -- From its enabling until its deliveries go on: nothing is sent meanwhile.
      resumes_at timestamptz,
      -- The position of the last event in the stream of an endpoint without a URL.
      last_position bigint NOT NULL DEFAULT 0,
      created_at timestamptz NOT NULL,
      updated_at timestamptz NOT NULL
    ) WITH (fillfactor = 50)`,
    // Endpoints whose deliveries are being deleted.
    `CREATE TABLE webhook_endpoint_removals (id text PRIMARY KEY, removed_at timestamptz NOT NULL DEFAULT now())`,
    // Kept until the last delivery that needs it is deleted. That of deliveries that were given up is empty.
    `CREATE TABLE webhook_endpoint_bodies (
      task_uuid uuid NOT NULL,
      revision integer NOT NULL,
      format text NOT NULL,
      created_at timestamptz NOT NULL,
      bytes integer NOT NULL,
      body text NOT NULL,
      -- The user, whose bodies are erased also after their tasks are.
      sub text,
      PRIMARY KEY (task_uuid, revision, format)
    )`,
    "CREATE INDEX webhook_endpoint_bodies_of_user ON webhook_endpoint_bodies (sub) WHERE sub IS NOT NULL",
    // Pending while \`due_at\` is set. \`attempts_before\` do not count: those by hand, and of earlier rounds. A replay and a re-enabled endpoint begin a new one.
    // The key is the order of the log.
    `CREATE TABLE webhook_endpoint_deliveries (
      endpoint_id text NOT NULL,
      task_uuid uuid NOT NULL,
      revision integer NOT NULL,
      status text NOT NULL,
      format text NOT NULL,
      attempts integer NOT NULL DEFAULT 0,
      attempts_before integer NOT NULL DEFAULT 0,
      attempts_allowed integer NOT NULL,
      sending boolean NOT NULL DEFAULT false,
      created_at timestamptz NOT NULL,
      due_at timestamptz,
      started_at timestamptz,
      delivered_at timestamptz,
      dropped text,
      position bigint,
      -- The attempts whose outcome is known: number, startedAt, duration, responseStatus, error.
      log jsonb,
      -- An attempt in flight counts as lost after it. due_at stays, so that a claim changes no index.
      leased_until timestamptz,
      PRIMARY KEY (endpoint_id, created_at, task_uuid, revision)
    ) WITH (fillfactor = 75)`,
    `CREATE INDEX webhook_endpoint_deliveries_due ON webhook_endpoint_deliveries (endpoint_id, due_at)
      WHERE due_at IS NOT NULL`,
    `CREATE INDEX webhook_endpoint_deliveries_failed
      ON webhook_endpoint_deliveries (endpoint_id, created_at, task_uuid, revision)
      WHERE due_at IS NULL AND delivered_at IS NULL`,
    `CREATE INDEX webhook_endpoint_deliveries_stream ON webhook_endpoint_deliveries (endpoint_id, position)
      WHERE position IS NOT NULL`
  ]],
  onEvents
}

const isOfUser = "sub = $1::text"

/** Deliveries are found by their bodies, and so come first. Of a body the export has what the task says. */
export const userData: UserData = {
  tables: [
    {
      table: "webhook_endpoint_deliveries",
      isOfUser: `(endpoint_id, created_at, task_uuid, revision) IN (
        SELECT e.id, b.created_at, b.task_uuid, b.revision FROM webhook_endpoint_bodies b, (
          SELECT id FROM webhook_endpoints UNION ALL SELECT id FROM webhook_endpoint_removals
        ) AS e WHERE b.${isOfUser}
      )`,
      exported: {
        type: "endpoint_delivery",
        key: { endpoint_id: "text", created_at: "timestamptz", task_uuid: "uuid", revision: "integer" },
        fields: {
          endpoint_id: "endpoint_id",
          task_uuid: "task_uuid",
          status: "status",
          created_at: iso("created_at"),
          delivered_at: iso("delivered_at")
        }
      }
    },
    { table: "webhook_endpoint_bodies", isOfUser, exported: null }
  ]
}
