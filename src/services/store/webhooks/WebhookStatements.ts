/** The statements of webhook deliveries, except the claim. A guard refuses late outcomes. */
import { PgTypes } from "@effect/sql-pg"
import { Schema } from "effect"
import { FromBytes, OpaqueJson } from "../../../domain/json/OpaqueJson.ts"
import { TaskId, TaskSummary } from "../../../domain/Task.ts"
import { Timestamp } from "../../../domain/Timestamp.ts"
import { Delivery } from "../../../domain/Webhook.ts"
import { array, hidden, micros, moment, query, statement, utf8 } from "../sql/Queries.ts"
import { summaryColumnsOf } from "../tasks/TaskColumns.ts"
import type { AttemptOutcome } from "./WebhookStore.ts"

const { float8, int4, text, uuid } = PgTypes.OID

/** The columns of a body, which is that of a `TaskSummary` at the moment of the change. `calls` is the row with the tool calls. */
export const bodyColumnsOf = (calls: string) =>
  `${
    summaryColumnsOf((field) => {
      if (field === "pendingToolCalls") return calls
      if (field === "status") return "d"
      return field === "error" || field === "completedAt" ? "ended" : "t"
    })
  }, d.revision, t.callback_format AS format, ${micros("d.created_at")} AS "happenedAt"`
export const turnOf = `coalesce(d.turn, u.turn)`
/** An interrupted task may have ended since. */
export const bodyTables = `JOIN tasks t ON t.uuid = d.task_uuid
  LEFT JOIN LATERAL (SELECT t.error, t.completed_at WHERE d.status <> 'interrupted') AS ended ON true
  LEFT JOIN task_turns u ON u.task_uuid = d.task_uuid`

/** The fields of a webhook's body. */
export const BodyFields = {
  ...TaskSummary.fields,
  turn: Schema.NullOr(OpaqueJson),
  revision: Schema.Int,
  format: Schema.NullOr(Schema.String),
  happenedAt: Timestamp
}

const DeliveryRow = Schema.Struct({
  ...Delivery.fields,
  attempts: Schema.fromJsonString(Delivery.fields.attempts)
})

const at = moment("@at")

/** Rows of deliveries that are due soon, and of those whose last attempt may be lost, by their indexes. */
export const dueSoon = (soon: string) => [
  `FROM webhook_deliveries WHERE is_proven = ANY ('{t,f}') AND due_at <= ${soon} AND attempts < attempts_allowed`,
  `FROM webhook_deliveries WHERE due_at <= ${soon} AND attempts >= attempts_allowed`
]

/** The moment of the oldest delivery that is due at `@at`. */
export const oldestDue = query(
  Schema.Struct({ dueAt: Schema.NullOr(Timestamp) }),
  `SELECT ${
    micros("min(oldest.due_at)")
  } AS "dueAt" FROM (VALUES (true), (false)) AS part (is_proven) CROSS JOIN LATERAL (
    SELECT d.due_at FROM webhook_deliveries d
    WHERE d.is_proven = part.is_proven AND d.due_at <= ${hidden(at)} AND d.attempts < d.attempts_allowed
    ORDER BY d.due_at LIMIT 1
  ) AS oldest`
)

export const endLost = query(
  Schema.Struct({ taskId: TaskId, revision: Schema.Int, origin: Schema.String, attempt: Schema.Int }),
  `UPDATE webhook_deliveries SET due_at = NULL, sending = false
  WHERE due_at IS NOT NULL AND due_at <= ${hidden(at)} AND attempts >= attempts_allowed
  RETURNING task_uuid AS "taskId", revision, origin, attempts AS attempt`
)

export const body = query(
  Schema.Struct({ ...BodyFields, turn: Schema.NullOr(FromBytes) }),
  `SELECT ${bodyColumnsOf("d")}, ${utf8(turnOf)} AS turn
  FROM webhook_deliveries d ${bodyTables} WHERE d.task_uuid = $1 AND d.revision = $2::int`
)

/**
 * Does nothing once the delivery has been claimed again. A last attempt that `endLost` ended was never sent: it is taken back too.
 */
export const postpone = statement(`WITH postponed AS (
    UPDATE webhook_deliveries d SET attempts = attempts - 1, sending = false, due_at = ${at}
    WHERE task_uuid = @task::uuid AND revision = @revision::int AND attempts = @attempt::int
      AND (sending OR due_at IS NULL AND delivered_at IS NULL) AND EXISTS (
        SELECT FROM webhook_attempts a
        WHERE a.task_uuid = d.task_uuid AND a.revision = d.revision AND a.number = d.attempts AND a.duration_ms IS NULL
          AND a.started_at = ${moment("@claimedAt")}
      )
    RETURNING task_uuid, revision
  )
  DELETE FROM webhook_attempts a USING postponed p
  WHERE a.task_uuid = p.task_uuid AND a.revision = p.revision AND a.number = @attempt::int`)

/** A proof that is younger is not stored again. */
const freshProof = "1 day"

/**
 * A success counts whenever it arrives; a failure only while no later attempt has been claimed. An update applies one row of `FROM`
 * to each delivery, so `decisive` has its success, if any, or its latest failure. An origin is proven by a response, unless its proof is
 * recent, and no longer proven after attempts without one. Rows of origins are locked in their order, and those to be deleted last and only
 * if they are free, so that two nodes never wait for each other.
 */
export const recordOutcomes = `WITH outcome AS (
    SELECT * FROM unnest(
      $1::uuid[], $2::int4[], $3::int4[], $4::float8[], $5::int4[], $6::int4[], $7::text[], $8::float8[], $9::text[]
    ) AS o (task_uuid, revision, attempt, ended, duration, response_status, error, next, origin)
  ), recorded AS (
    UPDATE webhook_attempts a
    SET duration_ms = o.duration, response_status = o.response_status, error = o.error
    FROM outcome o WHERE a.task_uuid = o.task_uuid AND a.revision = o.revision AND a.number = o.attempt
  ), decisive AS (
    SELECT DISTINCT ON (task_uuid, revision) * FROM outcome
    ORDER BY task_uuid, revision, error IS NULL DESC, attempt DESC
  ), reached AS (
    SELECT origin, bool_or(response_status IS NOT NULL) AS has_responded, max(ended) AS ended
    FROM outcome WHERE error IS DISTINCT FROM 'not_sent' GROUP BY origin
  ), proven AS (
    INSERT INTO webhook_origins AS w (origin, proven_at)
    SELECT origin, ${moment("ended")} FROM reached r WHERE has_responded AND NOT EXISTS (
      SELECT FROM webhook_origins w WHERE w.origin = r.origin AND w.proven_at > ${
  moment("ended")
} - interval '${freshProof}'
    ) ORDER BY origin
    ON CONFLICT (origin) DO UPDATE SET proven_at = EXCLUDED.proven_at RETURNING 1
  ), unproven AS (
    DELETE FROM webhook_origins WHERE origin IN (
      SELECT w.origin FROM webhook_origins w JOIN reached r USING (origin)
      WHERE NOT has_responded AND (SELECT count(*) FROM proven) >= 0 FOR UPDATE OF w SKIP LOCKED
    )
  )
  UPDATE webhook_deliveries d SET
    delivered_at = CASE WHEN o.error IS NULL THEN ${moment("o.ended")} ELSE d.delivered_at END,
    callback_secret = CASE WHEN o.error IS NOT NULL THEN d.callback_secret END,
    due_at = CASE WHEN o.error IS NOT NULL
      THEN coalesce(${moment("o.next")}, CASE WHEN d.attempts_allowed = d.attempts + 1 THEN ${
  moment("o.ended")
} END) END,
    is_proven = d.is_proven AND o.error IS NULL,
    sending = false
  FROM decisive o
  WHERE d.task_uuid = o.task_uuid AND d.revision = o.revision
    AND (o.error IS NULL OR (d.sending AND d.attempts = o.attempt))`

export const bindOutcomes = (outcomes: ReadonlyArray<AttemptOutcome>) => [
  array(outcomes.map(({ taskId }) => taskId), uuid),
  array(outcomes.map(({ revision }) => revision), int4),
  array(outcomes.map(({ attempt }) => attempt), int4),
  array(outcomes.map(({ endedAt }) => endedAt), float8),
  array(outcomes.map(({ duration }) => duration), int4),
  array(outcomes.map(({ responseStatus }) => responseStatus), int4),
  array(outcomes.map(({ error }) => error), text),
  array(outcomes.map(({ nextAttemptAt }) => nextAttemptAt), float8),
  array(outcomes.map(({ origin }) => origin), text)
]

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
        'number', a.number, 'startedAt', ${micros("a.started_at")}::bigint,
        'duration', a.duration_ms, 'responseStatus', a.response_status,
        'error', ${attemptError}
      ) ORDER BY a.number)
      FROM webhook_attempts a WHERE a.task_uuid = d.task_uuid AND a.revision = d.revision
    ), '[]')::text AS attempts
  FROM webhook_deliveries d ${where}`
  )

export const deliveryOfKey = deliveries(`WHERE d.task_uuid = $1 AND d.revision = $2::int`)

/** Newest first. */
export const deliveriesOfTask = deliveries(`WHERE d.task_uuid = $1 ORDER BY d.revision DESC LIMIT $2::int`)

/** Schedules one more attempt at `@at`, or moves the next one forward. An attempt in flight is left alone; its failure is not the last one. */
const scheduleAttempt = `attempts_allowed = CASE WHEN due_at IS NULL OR sending
    THEN greatest(attempts + 1, CASE WHEN sending THEN attempts_allowed END) ELSE attempts_allowed END,
  due_at = CASE WHEN sending THEN due_at ELSE least(due_at, ${at}) END`

/** `secret` is encrypted; `sub` is null for an operator. After `seconds` one more redelivery is allowed. */
export const redeliver = query(
  Schema.Struct({ outcome: Schema.Literals(["enqueued", "unknown", "needs_secret", "exhausted", "too_many"]) }),
  `WITH found AS (
    SELECT CASE WHEN signed AND callback_secret IS NULL AND @secret::text IS NULL THEN 'needs_secret'
      WHEN @sub::text IS NOT NULL AND attempts >= @maxAttempts::int THEN 'exhausted' END AS refusal
    FROM webhook_deliveries WHERE task_uuid = @task::uuid AND revision = @revision::int FOR UPDATE
  ), expired AS (
    DELETE FROM webhook_redeliveries WHERE sub IN (
      SELECT sub FROM webhook_redeliveries WHERE used_until <= ${at} AND sub <> @sub::text
      LIMIT 10 FOR UPDATE SKIP LOCKED
    )
  ), counted AS (
    INSERT INTO webhook_redeliveries AS r (sub, used_until)
    SELECT @sub::text, ${at} + make_interval(secs => @seconds::float8) FROM found
    WHERE refusal IS NULL AND @sub::text IS NOT NULL
    ON CONFLICT (sub) DO UPDATE
    SET used_until = greatest(r.used_until, ${at}) + make_interval(secs => @seconds::float8)
    WHERE r.used_until <= ${at} + make_interval(secs => @seconds::float8 * (@maxRedeliveries::int - 1))
    RETURNING 1
  ), enqueued AS (
    UPDATE webhook_deliveries SET ${scheduleAttempt},
      callback_secret = CASE WHEN signed THEN coalesce(callback_secret, @secret::text) END
    WHERE task_uuid = @task::uuid AND revision = @revision::int AND EXISTS (SELECT FROM found WHERE refusal IS NULL)
      AND (@sub::text IS NULL OR EXISTS (SELECT FROM counted))
    RETURNING 1
  ) SELECT CASE WHEN EXISTS (SELECT FROM enqueued) THEN 'enqueued'
      WHEN NOT EXISTS (SELECT FROM found) THEN 'unknown'
      ELSE coalesce((SELECT refusal FROM found), 'too_many') END AS outcome`
)
