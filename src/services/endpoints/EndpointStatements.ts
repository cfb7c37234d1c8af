/** The statements of webhook endpoints, except those of their attempts (`EndpointClaim`) and of their upkeep (`EndpointUpkeep`). */
import { PgTypes } from "@effect/sql-pg"
import { Duration, Schema, Struct } from "effect"
import { OpaqueJson } from "../../domain/json/OpaqueJson.ts"
import { TaskId, TaskStatus } from "../../domain/Task.ts"
import { Timestamp } from "../../domain/Timestamp.ts"
import { type DeliveryState, originOf } from "../../domain/Webhook.ts"
import { array, countQuery, micros, moment, query } from "../store/sql/Queries.ts"
import { attempts, type Definition, Endpoint, limits, LoggedDelivery } from "./Endpoint.ts"
import { bodyOf } from "./EndpointClaim.ts"

const { int8, text } = PgTypes.OID

const EndpointRow = Schema.Struct({
  ...Endpoint.fields,
  events: Schema.fromJsonString(Endpoint.fields.events),
  assistantIds: Schema.NullOr(Schema.fromJsonString(Schema.Array(Schema.Int))),
  metadata: Schema.NullOr(Schema.fromJsonString(Schema.Array(Schema.Tuple([Schema.String, Schema.String]))))
})

/** Pairs as arrays, because an object would have texts of operators as its keys. */
const columns = `w.id, w.url, w.description, array_to_json(w.events)::text AS events,
  array_to_json(w.assistant_ids)::text AS "assistantIds", CASE WHEN w.metadata IS NOT NULL THEN (
    SELECT coalesce(json_agg(json_build_array(key, value)), '[]') FROM jsonb_each_text(w.metadata)
  )::text END AS metadata, w.format, w.secret, w.old_secret AS "oldSecret", ${
  micros("w.old_secret_until")
} AS "oldSecretUntil", ${micros("w.disabled_at")} AS "disabledAt", w.disabled_reason AS "disabledReason",
  ${micros("w.failing_since")} AS "failingSince", ${micros("w.succeeded_at")} AS "succeededAt",
  ${micros("w.created_at")} AS "createdAt", ${micros("w.updated_at")} AS "updatedAt"`

export const endpointOf = ({ metadata, ...row }: typeof EndpointRow.Type): Endpoint => ({
  ...row,
  metadata: metadata === null ? null : Object.fromEntries(metadata)
})

/** The columns of the fields that an operator decides, with the type of their parameter. */
const definitionColumns = {
  url: ["url", "text"],
  origin: ["origin", "text"],
  description: ["description", "text"],
  events: ["events", "text[]"],
  assistantIds: ["assistant_ids", "bigint[]"],
  metadata: ["metadata", "text::jsonb"],
  format: ["format", "text"]
} as const

type Columns = { readonly [Name in keyof typeof definitionColumns]?: unknown }

export const valuesOf = (given: Partial<Definition>): Columns => ({
  ...given,
  ...(given.url === undefined ? {} : { origin: given.url === null ? null : originOf(given.url) }),
  ...(given.events === undefined ? {} : { events: array(given.events, text) }),
  ...(given.assistantIds ? { assistantIds: array(given.assistantIds.map(BigInt), int8) } : {}),
  ...(given.metadata ? { metadata: JSON.stringify(given.metadata) } : {})
})

export const fields = Struct.keys(definitionColumns)

export const lock = `SELECT pg_advisory_xact_lock(hashtextextended('async-task-service:endpoints', 0))`
export const insert = `INSERT INTO webhook_endpoints (
    id, secret, ${
  fields.map((field) => definitionColumns[field][0]).join(", ")
}, disabled_at, disabled_reason, created_at, updated_at
  )
  SELECT $1, $2, ${fields.map((field, index) => `$${index + 6}::${definitionColumns[field][1]}`).join(", ")}, ${
  moment("$3")
}, $4, ${moment("$5")}, ${moment("$5")}
  WHERE (SELECT count(*) FROM webhook_endpoints) < ${limits.endpoints} RETURNING id`

export const list = query(
  EndpointRow,
  `SELECT ${columns} FROM webhook_endpoints w
  WHERE $1::float8 IS NULL OR (w.created_at, w.id) < (${moment("$1")}, $2::text)
  ORDER BY w.created_at DESC, w.id DESC LIMIT $3::int`
)
export const get = query(EndpointRow, `SELECT ${columns} FROM webhook_endpoints w WHERE w.id = $1`)

const pendingOf = (endpoint: string) => `d.endpoint_id = ${endpoint} AND d.due_at IS NOT NULL`

/**
 * Binds id, moment and what becomes of it: `kept`, `enabled` or the reason why it is disabled. An endpoint that is enabled is not failing, and
 * goes on once `resume` has seen to its deliveries.
 */
export const updateOf = (changed: ReadonlyArray<keyof typeof definitionColumns>) =>
  query(
    EndpointRow,
    `UPDATE webhook_endpoints w SET updated_at = ${moment("$2")},
      disabled_at = CASE $3::text WHEN 'kept' THEN w.disabled_at WHEN 'enabled' THEN NULL
        ELSE coalesce(w.disabled_at, ${moment("$2")}) END,
      disabled_reason = CASE $3 WHEN 'kept' THEN w.disabled_reason WHEN 'enabled' THEN NULL
        ELSE coalesce(w.disabled_reason, $3) END,
      resumes_at = CASE WHEN $3 = 'enabled' AND w.disabled_at IS NOT NULL THEN ${moment("$2")} ELSE w.resumes_at END,
      failing_since = CASE WHEN $3 <> 'enabled' OR w.disabled_at IS NULL THEN w.failing_since END${
      changed.map((field, index) => {
        const [column, type] = definitionColumns[field]
        return `, ${column} = $${index + 4}::${type}`
      }).join("")
    } WHERE w.id = $1 RETURNING ${columns}`
  )

export const failed = "d.due_at IS NULL AND d.delivered_at IS NULL"

/** The old secret is that of this moment: of two rotations at a time the later one keeps the secret of the first. */
export const rotate = query(
  EndpointRow,
  `UPDATE webhook_endpoints w SET updated_at = ${moment("$2")}, secret = $3,
    old_secret = CASE WHEN $4::float8 IS NOT NULL THEN w.secret END, old_secret_until = ${moment("$4")}
  WHERE w.id = $1 RETURNING ${columns}`
)

export const remove = countQuery(
  `WITH removed AS (
    DELETE FROM webhook_endpoints WHERE id = $1 RETURNING id
  ), left_over AS (
    INSERT INTO webhook_endpoint_removals (id) SELECT id FROM removed ON CONFLICT DO NOTHING
  ) SELECT count(*)::int AS count FROM removed`
)

export const replaceSecret = `UPDATE webhook_endpoints SET secret = CASE WHEN secret = $1 THEN $2 ELSE secret END,
    old_secret = CASE WHEN old_secret = $1 THEN $2 ELSE old_secret END
  WHERE secret = $1 OR old_secret = $1`

const DeliveryRow = Schema.Struct({
  ...LoggedDelivery.fields,
  attempts: Schema.fromJsonString(LoggedDelivery.fields.attempts),
  attempt: Schema.Int,
  startedAt: Schema.NullOr(Timestamp),
  isSending: Schema.Boolean
})

/** An attempt without an outcome is in flight, or lost. */
export const deliveryOf = ({ attempt, isSending, startedAt, ...row }: typeof DeliveryRow.Type): LoggedDelivery => ({
  ...row,
  attempts: startedAt === null || row.attempts.some(({ number }) => number === attempt) ? row.attempts : [
    ...row.attempts,
    { number: attempt, startedAt, duration: null, responseStatus: null, error: isSending ? null : "lost" }
  ]
})

const conditionOf: Readonly<Record<DeliveryState, string>> = {
  pending: "d.due_at IS NOT NULL",
  delivered: "d.due_at IS NULL AND d.delivered_at IS NOT NULL",
  failed
}

const deliveries = (where: string) =>
  query(
    DeliveryRow,
    `SELECT d.endpoint_id AS "endpointId", d.task_uuid AS "taskId", d.revision, d.status,
      CASE WHEN ${conditionOf.pending} THEN 'pending' WHEN ${failed} THEN 'failed' ELSE 'delivered' END AS state, d.dropped,
      ${micros("d.created_at")} AS "createdAt", CASE WHEN NOT d.sending THEN ${
      micros("d.due_at")
    } END AS "nextAttemptAt",
      coalesce(d.log, '[]')::text AS attempts, d.attempts AS attempt, ${micros("d.started_at")} AS "startedAt",
      d.sending AS "isSending"
    FROM webhook_endpoint_deliveries d WHERE d.endpoint_id = $1 AND ${where}`
  )

/** The state is written into the statement, so that the index of failed ones is used. */
const pageOf = (condition: string) =>
  deliveries(
    `${condition} AND ($2::float8 IS NULL
      OR (d.created_at, d.task_uuid, d.revision) < (${moment("$2")}, $3::uuid, $4::int))
    ORDER BY d.created_at DESC, d.task_uuid DESC, d.revision DESC LIMIT $5::int`
  )
export const pages = {
  all: pageOf("true"),
  pending: pageOf(conditionOf.pending),
  delivered: pageOf(conditionOf.delivered),
  failed: pageOf(conditionOf.failed)
}

/** The moment of a change is a part of the key of its deliveries, and found by their body. */
const ofKey = `d.created_at = (
    SELECT b.created_at FROM webhook_endpoint_bodies b WHERE b.task_uuid = $2::uuid AND b.revision = $3::int LIMIT 1
  ) AND d.task_uuid = $2::uuid AND d.revision = $3::int`
export const delivery = deliveries(ofKey)

const hasBody = `EXISTS (SELECT FROM webhook_endpoint_bodies b WHERE ${bodyOf("d")})`

/** A delivery that waits between two attempts: one by hand does not count toward its schedule. */
const isBetween = `(NOT d.sending AND d.due_at > ${moment("$4")} AND d.attempts > d.attempts_before) IS TRUE`

export const redeliver = countQuery(
  `WITH found AS (
    UPDATE webhook_endpoint_deliveries d SET
      attempts_allowed = CASE WHEN d.due_at IS NULL OR d.sending
        THEN greatest(d.attempts + 1, CASE WHEN d.sending THEN d.attempts_allowed END)
        ELSE d.attempts_allowed + (${isBetween})::int END,
      attempts_before = d.attempts_before + (${isBetween})::int,
      due_at = CASE WHEN d.sending THEN d.due_at ELSE least(d.due_at, ${moment("$4")}) END, dropped = NULL
    WHERE d.endpoint_id = $1 AND ${ofKey} AND ${hasBody} RETURNING 1
  ) SELECT count(*)::int AS count FROM found`
)

/** Deliveries beyond the limit are counted too, up to a bound. */
const replayOf = (condition: string) => {
  const replayed = `d.endpoint_id = $1 AND d.created_at >= ${moment("$2")} AND d.created_at <= ${moment("$3")}
    AND ${condition} AND ${hasBody}`
  return query(
    Schema.Struct({ enqueued: Schema.Int, matched: Schema.Int }),
    `WITH found AS (
      SELECT d.ctid, row_number() OVER (ORDER BY d.created_at, d.task_uuid, d.revision) AS turn
      FROM webhook_endpoint_deliveries d WHERE ${replayed}
      ORDER BY d.created_at, d.task_uuid, d.revision LIMIT $5::int
    ), enqueued AS (
      UPDATE webhook_endpoint_deliveries d SET dropped = NULL, attempts_before = d.attempts,
        attempts_allowed = d.attempts + ${attempts},
        due_at = ${moment("$4")} + (found.turn - 1) * interval '${Duration.toMillis(limits.replayPause)} milliseconds'
      FROM found WHERE d.ctid = found.ctid AND d.due_at IS NULL RETURNING 1
    ) SELECT (SELECT count(*)::int FROM enqueued) AS enqueued, (
      SELECT count(*)::int FROM (SELECT FROM webhook_endpoint_deliveries d WHERE ${replayed} LIMIT 100000) AS matched
    ) AS matched`
  )
}
export const replays = { all: replayOf("d.due_at IS NULL"), failed: replayOf(failed) }

export const addSample = `WITH body AS (
    INSERT INTO webhook_endpoint_bodies (task_uuid, revision, format, created_at, bytes, body)
    VALUES ($2::uuid, $3::int, $4, ${moment("$5")}, octet_length($6::text), $6::text)
  )
  INSERT INTO webhook_endpoint_deliveries (
    endpoint_id, task_uuid, revision, status, format, created_at, due_at, attempts, attempts_allowed, started_at,
    delivered_at, log
  )
  VALUES ($1, $2::uuid, $3::int, $7, $4, ${moment("$5")}, CASE WHEN $8::text IS NULL THEN ${moment("$5")} END,
    CASE WHEN $8::text IS NULL THEN 0 ELSE 1 END, 1, ${moment("$9")}, ${moment("$10")}, $8::text::jsonb)`

/** Bytes of the bodies that are read together, beyond the first. */
const readBytes = 4 * 1024 * 1024
const { readRows } = limits

/**
 * Positions are given by readers one after another, so that they become visible in their order: one that was given later has a higher number,
 * whatever the order in which changes were committed.
 */
export const place = `WITH endpoint AS MATERIALIZED (
    SELECT w.id, w.last_position FROM webhook_endpoints w WHERE w.id = $1 AND EXISTS (
      SELECT FROM webhook_endpoint_deliveries d WHERE ${pendingOf("$1")}
    ) FOR NO KEY UPDATE
  ), found AS (
    SELECT d.ctid, e.last_position + row_number() OVER (ORDER BY d.due_at, d.task_uuid, d.revision) AS position
    FROM endpoint e CROSS JOIN LATERAL (
      SELECT d.ctid, d.due_at, d.task_uuid, d.revision FROM webhook_endpoint_deliveries d WHERE ${pendingOf("e.id")}
      ORDER BY d.due_at LIMIT ${readRows}
    ) AS d
  ), placed AS (
    UPDATE webhook_endpoint_deliveries d SET position = found.position, due_at = NULL, sending = false, delivered_at = ${
  moment("$2")
}
    FROM found WHERE d.ctid = found.ctid AND d.due_at IS NOT NULL RETURNING d.position
  )
  UPDATE webhook_endpoints w SET last_position = (SELECT max(position) FROM found), succeeded_at = ${moment("$2")}
  WHERE w.id = $1 AND EXISTS (SELECT FROM placed)`

const Streamed = Schema.Struct({
  position: Schema.Int,
  taskId: TaskId,
  revision: Schema.Int,
  status: TaskStatus,
  body: OpaqueJson
})
/** A body may be gone: then its event is left out, and no page is short by it. */
export const readPlaced = query(
  Streamed,
  `SELECT position::float8 AS position, task_uuid AS "taskId", revision, status, body FROM (
    SELECT *, sum(bytes) OVER (ORDER BY position) - bytes AS bytes_before FROM (
      SELECT d.position, d.task_uuid, d.revision, d.status, b.body, b.bytes
      FROM webhook_endpoint_deliveries d JOIN webhook_endpoint_bodies b
        ON b.task_uuid = d.task_uuid AND b.revision = d.revision AND b.format = d.format
      WHERE d.endpoint_id = $1 AND d.position > $2::bigint ORDER BY d.position LIMIT ${readRows}
    ) AS page
  ) AS found WHERE bytes_before < ${readBytes} ORDER BY position`
)
