/** The statements of webhook deliveries. A claim skips rows that other claims have locked; a guard refuses late outcomes. */
import { Schema } from "effect"
import { FromBytes, OpaqueJson } from "../../domain/OpaqueJson.ts"
import { CallbackFormat } from "../../domain/OpenAiWebhook.ts"
import { TaskId } from "../../domain/Task.ts"
import { Timestamp } from "../../domain/Timestamp.ts"
import { Delivery } from "../../domain/Webhook.ts"
import { SummaryFields } from "./ListStatement.ts"
import { countQuery, hidden, micros, moment, query, utf8 } from "./Queries.ts"
import { largeBody } from "./WebhookStore.ts"

/** Candidate rows examined per row that may be claimed, so that a node finds rows beside the claims of three others. */
const lookahead = 4

/**
 * The columns of a body. Those of a terminal task come from the task, those of an interrupted one from the delivery.
 */
const bodyColumns = `t.uuid, t.sub, d.status, ${micros("t.created_at")} AS "createdAt",
  CASE WHEN d.status <> 'interrupted' THEN t.error END AS error,
  CASE WHEN d.status <> 'interrupted' THEN ${micros("t.completed_at")} END AS "completedAt",
  d.revision, t.callback_format AS format, ${micros("d.created_at")} AS "happenedAt",
  CASE WHEN t.callback_format IS NOT NULL THEN (
    SELECT count(*)::int FROM task_events e
    WHERE e.task_uuid = d.task_uuid AND e.type = 'ToolResultsSubmitted' AND e.revision < d.revision
  ) ELSE 0 END AS leg`
const turnOf = `coalesce(d.turn, u.turn)`
const bodyTables = `JOIN tasks t ON t.uuid = d.task_uuid LEFT JOIN task_turns u ON u.task_uuid = d.task_uuid`

/** The fields of a webhook's body. */
const BodyFields = {
  ...SummaryFields,
  turn: Schema.NullOr(OpaqueJson),
  revision: Schema.Int,
  format: CallbackFormat,
  happenedAt: Timestamp,
  leg: Schema.Int
}

const ClaimRow = Schema.Struct({
  ...BodyFields,
  url: Schema.String,
  origin: Schema.String,
  attempt: Schema.Int,
  isLast: Schema.Boolean,
  dueAt: Timestamp,
  isAfterLost: Schema.Boolean,
  secret: Schema.NullOr(Schema.String),
  isLarge: Schema.Boolean,
  hasMore: Schema.Boolean
})

const DeliveryRow = Schema.Struct({
  ...Delivery.fields,
  attempts: Schema.fromJsonString(Delivery.fields.attempts)
})

/** The first parameter of the statements that change deliveries. */
const at = moment("$1")

const claimedAt = hidden(at)

/**
 * Claims due deliveries. `locked` finds the rows by their `ctid`, and repeats the conditions on each row as it is once it is
 * locked. A row that another transaction has changed since the statement began is left to the next claim.
 */
export const claim = query(
  ClaimRow,
  `WITH room AS (
    SELECT * FROM unnest(${hidden("$2::text[]")}, ${hidden("$3::int4[]")}) AS room (origin, permits)
  ), candidates AS (
    SELECT ctid, origin, due_at FROM webhook_deliveries
    WHERE due_at <= ${claimedAt} AND attempts < attempts_allowed
      AND CASE WHEN ${hidden("$4::int")} > 0 THEN origin <> ALL (ARRAY(SELECT origin FROM room WHERE permits <= 0))
        ELSE origin = ANY (ARRAY(SELECT origin FROM room WHERE permits > 0)) END
    ORDER BY due_at LIMIT ${hidden(`$5::int * ${lookahead}`)}
  ), ranked AS (
    SELECT *, row_number() OVER (PARTITION BY origin ORDER BY due_at) AS position FROM candidates
  ), locked AS (
    SELECT d.ctid, d.due_at AS was_due_at, d.sending AS is_after_lost FROM webhook_deliveries d
    WHERE d.ctid = ANY (ARRAY(
      SELECT r.ctid FROM ranked r
      WHERE r.position <= coalesce((SELECT permits FROM room WHERE room.origin = r.origin), ${hidden("$4::int")})
    )) AND (d.due_at <= ${claimedAt} AND d.attempts < d.attempts_allowed) IS TRUE
    ORDER BY d.due_at LIMIT ${hidden("$5::int")} FOR UPDATE SKIP LOCKED
  ), claimed AS (
    UPDATE webhook_deliveries d SET attempts = d.attempts + 1, sending = true,
      due_at = ${at}
        + make_interval(secs => ($6::float8[])[least(d.attempts + 1, array_length($6::float8[], 1))])
    FROM locked WHERE d.ctid = locked.ctid
    RETURNING d.*, was_due_at, is_after_lost, octet_length(coalesce(d.pending_tool_calls, '')) AS calls_bytes
  ), attempt AS (
    INSERT INTO webhook_attempts (task_uuid, revision, number, started_at)
    SELECT task_uuid, revision, attempts, ${at} FROM claimed
  ), sized AS (
    SELECT ${bodyColumns}, d.url, d.origin, d.attempts AS attempt,
      d.attempts >= d.attempts_allowed AS "isLast", d.callback_secret AS secret,
      ${micros("was_due_at")} AS "dueAt", is_after_lost AS "isAfterLost",
      d.pending_tool_calls, ${turnOf} AS turn,
      calls_bytes + coalesce(octet_length(${turnOf}), 0) > ${largeBody} AS "isLarge"
    FROM claimed d ${bodyTables}
  )
  SELECT uuid, sub, status, "createdAt", error, "completedAt", revision, format, "happenedAt", leg, url, origin, attempt, "isLast", "dueAt",
    "isAfterLost", secret, "isLarge",
    CASE WHEN NOT "isLarge" THEN pending_tool_calls END AS "pendingToolCalls",
    CASE WHEN NOT "isLarge" THEN turn END AS turn,
    (SELECT count(*) FROM candidates) > (SELECT count(*) FROM locked) AS "hasMore"
  FROM sized`
)

export const endLost = query(
  Schema.Struct({ taskId: TaskId, revision: Schema.Int, origin: Schema.String, attempt: Schema.Int }),
  `UPDATE webhook_deliveries SET due_at = NULL, sending = false
  WHERE due_at IS NOT NULL AND due_at <= ${hidden(at)} AND attempts >= attempts_allowed
  RETURNING task_uuid AS "taskId", revision, origin, attempts AS attempt`
)

export const body = query(
  Schema.Struct({ ...BodyFields, turn: Schema.NullOr(FromBytes) }),
  `SELECT ${bodyColumns}, d.pending_tool_calls AS "pendingToolCalls", ${utf8(turnOf)} AS turn
  FROM webhook_deliveries d ${bodyTables} WHERE d.task_uuid = $1 AND d.revision = $2::int`
)

/**
 * Does nothing once the delivery has been claimed again. A last attempt that `endLost` ended was never sent: it is taken back too.
 */
export const postpone = `WITH postponed AS (
    UPDATE webhook_deliveries d SET attempts = attempts - 1, sending = false, due_at = ${at}
    WHERE task_uuid = $2::uuid AND revision = $3::int AND attempts = $4::int
      AND (sending OR due_at IS NULL AND delivered_at IS NULL) AND EXISTS (
        SELECT FROM webhook_attempts a
        WHERE a.task_uuid = d.task_uuid AND a.revision = d.revision AND a.number = d.attempts AND a.duration_ms IS NULL
          AND a.started_at = ${moment("$5")}
      )
    RETURNING task_uuid, revision
  )
  DELETE FROM webhook_attempts a USING postponed p
  WHERE a.task_uuid = p.task_uuid AND a.revision = p.revision AND a.number = $4::int`

/**
 * A success counts whenever it arrives; a failure only while no later attempt has been claimed. An update applies one row of `FROM`
 * to each delivery, so `decisive` has its success, if any, or its latest failure.
 */
export const recordOutcomes = `WITH outcome AS (
    SELECT * FROM unnest(
      $1::uuid[], $2::int4[], $3::int4[], $4::float8[], $5::int4[], $6::int4[], $7::text[], $8::float8[]
    ) AS o (task_uuid, revision, attempt, ended, duration, response_status, error, next)
  ), recorded AS (
    UPDATE webhook_attempts a
    SET duration_ms = o.duration, response_status = o.response_status, error = o.error
    FROM outcome o WHERE a.task_uuid = o.task_uuid AND a.revision = o.revision AND a.number = o.attempt
  ), decisive AS (
    SELECT DISTINCT ON (task_uuid, revision) * FROM outcome
    ORDER BY task_uuid, revision, error IS NULL DESC, attempt DESC
  )
  UPDATE webhook_deliveries d SET
    delivered_at = CASE WHEN o.error IS NULL THEN ${moment("o.ended")} ELSE d.delivered_at END,
    callback_secret = CASE WHEN o.error IS NOT NULL THEN d.callback_secret END,
    due_at = CASE WHEN o.error IS NOT NULL THEN ${moment("o.next")} END,
    sending = false
  FROM decisive o
  WHERE d.task_uuid = o.task_uuid AND d.revision = o.revision
    AND (o.error IS NULL OR (d.sending AND d.attempts = o.attempt))`

export const state = `CASE WHEN d.due_at IS NOT NULL THEN 'pending' WHEN d.delivered_at IS NOT NULL THEN 'delivered'
  ELSE 'failed' END`

/** A finished delivery has no attempt without an outcome, unless its node stopped before it knew it. */
export const attemptError =
  `CASE WHEN a.duration_ms IS NULL AND NOT (d.sending AND a.number = d.attempts) THEN 'lost' ELSE a.error END`

export const deliveries = (where: string) =>
  query(
    DeliveryRow,
    `SELECT d.task_uuid AS "taskId", d.revision, d.status, ${state} AS state, d.origin,
    ${micros("d.created_at")} AS "createdAt",
    CASE WHEN NOT d.sending THEN ${micros("d.due_at")} END AS "nextAttemptAt",
    coalesce((
      SELECT json_agg(json_build_object(
        'number', a.number, 'startedAt', ${micros("a.started_at")},
        'duration', a.duration_ms, 'responseStatus', a.response_status,
        'error', ${attemptError}
      ) ORDER BY a.number)
      FROM webhook_attempts a WHERE a.task_uuid = d.task_uuid AND a.revision = d.revision
    ), '[]')::text AS attempts
  FROM webhook_deliveries d ${where}`
  )

/** Deliveries of an origin, or of all. */
const isOfOrigin = `($1::text IS NULL OR d.origin = $1::text)`

export const deliveryOfKey = deliveries(`WHERE d.task_uuid = $1 AND d.revision = $2::int`)

/** Newest first. */
export const deliveriesOfTask = deliveries(`WHERE d.task_uuid = $1 ORDER BY d.revision DESC LIMIT $2::int`)

export const matchingDeliveries = deliveries(`WHERE ${isOfOrigin} AND ($3::text IS NULL OR ${state} = $3::text)
  ORDER BY d.created_at DESC, d.task_uuid DESC, d.revision DESC LIMIT $2::int`)

/** Schedules one more attempt at `$1`, or moves the next one forward; an attempt in flight is left alone. */
const scheduleAttempt = `attempts_allowed = CASE WHEN due_at IS NULL THEN attempts + 1 ELSE attempts_allowed END,
  due_at = CASE WHEN sending THEN due_at ELSE least(due_at, ${at}) END`

/**
 * Binds moment, task, revision, encrypted secret, user (null for an operator), maximum attempts, maximum redeliveries,
 * and the seconds after which one more redelivery is allowed.
 */
export const redeliver = query(
  Schema.Struct({ outcome: Schema.Literals(["enqueued", "unknown", "needs_secret", "exhausted", "too_many"]) }),
  `WITH found AS (
    SELECT CASE WHEN signed AND callback_secret IS NULL AND $4::text IS NULL THEN 'needs_secret'
      WHEN $5::text IS NOT NULL AND attempts >= $6::int THEN 'exhausted' END AS refusal
    FROM webhook_deliveries WHERE task_uuid = $2 AND revision = $3::int FOR UPDATE
  ), expired AS (
    DELETE FROM webhook_redeliveries WHERE sub IN (
      SELECT sub FROM webhook_redeliveries WHERE used_until <= ${at} AND sub <> $5::text
      LIMIT 10 FOR UPDATE SKIP LOCKED
    )
  ), counted AS (
    INSERT INTO webhook_redeliveries AS r (sub, used_until)
    SELECT $5::text, ${at} + make_interval(secs => $8::float8) FROM found
    WHERE refusal IS NULL AND $5::text IS NOT NULL
    ON CONFLICT (sub) DO UPDATE
    SET used_until = greatest(r.used_until, ${at}) + make_interval(secs => $8::float8)
    WHERE r.used_until <= ${at} + make_interval(secs => $8::float8 * ($7::int - 1))
    RETURNING 1
  ), enqueued AS (
    UPDATE webhook_deliveries SET ${scheduleAttempt},
      callback_secret = CASE WHEN signed THEN coalesce(callback_secret, $4::text) END
    WHERE task_uuid = $2 AND revision = $3::int AND EXISTS (SELECT FROM found WHERE refusal IS NULL)
      AND ($5::text IS NULL OR EXISTS (SELECT FROM counted))
    RETURNING 1
  ) SELECT CASE WHEN EXISTS (SELECT FROM enqueued) THEN 'enqueued'
      WHEN NOT EXISTS (SELECT FROM found) THEN 'unknown'
      ELSE coalesce((SELECT refusal FROM found), 'too_many') END AS outcome`
)

export const redeliverFailed = countQuery(
  `WITH failed AS (
    SELECT d.task_uuid, d.revision FROM webhook_deliveries d
    WHERE ${isOfOrigin} AND d.due_at IS NULL AND d.delivered_at IS NULL
    ORDER BY d.created_at LIMIT $2::int FOR UPDATE SKIP LOCKED
  ), enqueued AS (
    UPDATE webhook_deliveries d SET attempts_allowed = d.attempts + 1, due_at = ${moment("$3")} FROM failed
    WHERE d.task_uuid = failed.task_uuid AND d.revision = failed.revision RETURNING 1
  ) SELECT count(*)::int AS count FROM enqueued`
)
