/**
 * The statements of the upkeep of webhook endpoints. What is pending is walked by pages in the order of its index, so that a statement reads
 * about as many rows as it may change, however many there are. They wait for no row, and those that change rows run one at a time in the
 * cluster.
 */
import { PgTypes } from "@effect/sql-pg"
import { Duration, Schema } from "effect"
import { Timestamp } from "../../domain/Timestamp.ts"
import { array, countQuery, micros, moment, query } from "../store/sql/Queries.ts"
import { attempts, Endpoint } from "./Endpoint.ts"
import { isFree } from "./EndpointClaim.ts"
import { failed } from "./EndpointStatements.ts"

const { float8, text } = PgTypes.OID

const oneAtATime =
  "(SELECT pg_advisory_xact_lock(hashtextextended('async-task-service:endpoint-upkeep', 0)) IS NOT NULL)"

export const ids = query(Schema.Struct({ id: Schema.String }), "SELECT id FROM webhook_endpoints ORDER BY id")
export const resuming = query(
  Schema.Struct({ id: Schema.String, at: Timestamp }),
  `SELECT id, ${micros("resumes_at")} AS at FROM webhook_endpoints WHERE resumes_at IS NOT NULL AND disabled_at IS NULL`
)
export const unsent = query(
  Schema.Struct({ id: Schema.String }),
  "SELECT id FROM webhook_endpoints WHERE url IS NULL OR disabled_at IS NOT NULL"
)

const pending = "d.due_at IS NOT NULL"

/** The rows of endpoint `$1` behind moment `$2`, at least `$3` if there are as many: those of one moment are on one page. */
const page = (rows: string, by: "due_at" | "created_at" = "due_at") =>
  `page AS MATERIALIZED (
    SELECT d.ctid, d.created_at, d.task_uuid, d.revision, d.format, d.${by} AS at FROM webhook_endpoint_deliveries d
    WHERE d.endpoint_id = $1 AND ${rows} AND d.${by} > ${
    moment("$2")
  } ORDER BY d.${by} FETCH FIRST ($3::int) ROWS WITH TIES
  )`

/** Changes the rows of a page for which a condition is true. Returns their number, and the moment where the next page begins. */
const walk = (page: string, condition: string, changes: string, more = "") =>
  query(
    Schema.Struct({ count: Schema.Int, last: Schema.NullOr(Timestamp) }),
    `WITH ${page}, chosen AS MATERIALIZED (
      SELECT d.ctid, d.created_at, d.task_uuid, d.revision, d.format
      FROM page JOIN webhook_endpoint_deliveries d ON d.ctid = page.ctid
      WHERE ${oneAtATime} AND ${condition} FOR UPDATE OF d SKIP LOCKED
    ), changed AS (
      UPDATE webhook_endpoint_deliveries d SET sending = false, ${changes} FROM chosen WHERE d.ctid = chosen.ctid RETURNING 1
    )${more} SELECT (SELECT count(*)::int FROM changed) AS count, ${micros("max(at)")} AS last FROM page`
  )

/** The moment of the enabling, and that before which deliveries are too old. */
const at = moment("$4")
const oldest = moment("$5")
/** Older ones are due a little earlier, because rows of one moment are on one page. */
const newRound = `due_at = CASE WHEN d.created_at >= ${oldest} THEN ${at} - (${at} - d.created_at) / 1000000 END,
  dropped = CASE WHEN d.created_at < ${oldest} THEN 'too_old' END,
  attempts_before = d.attempts, attempts_allowed = d.attempts + ${attempts}`

/** Of pending ones those that are too old, or wait for a later attempt; what is being sent has an outcome of its own. */
export const resumePending = walk(
  page(pending),
  `${pending} AND (d.created_at < ${oldest} OR d.due_at > ${at}) AND ${isFree(at)}`,
  newRound
)
/** Those whose last attempt failed. */
export const resumeFailed = walk(
  page(`${failed} AND d.created_at >= ${oldest} AND d.created_at <= ${at}`, "created_at"),
  `${failed} AND d.dropped IS NULL`,
  newRound
)
export const resumed = `UPDATE webhook_endpoints SET resumes_at = NULL WHERE id = $1 AND resumes_at = ${moment("$2")}`

/** A delivery is due as long as it is old at least, so the index finds those that may be too old. */
export const dropOld = walk(
  page(`${pending} AND d.due_at < ${at}`),
  `${pending} AND ${isFree(at)}`,
  "due_at = NULL, dropped = 'too_old'"
)

/** Whether one of some endpoints `w` has a delivery of the same event. `OFFSET 0` makes it look each up by its key. */
const elsewhere = (of: string, endpoints: string, condition: string) =>
  `EXISTS (SELECT FROM ${endpoints} CROSS JOIN LATERAL (
    SELECT FROM webhook_endpoint_deliveries d WHERE d.endpoint_id = w.id AND d.created_at = ${of}.created_at
      AND d.task_uuid = ${of}.task_uuid AND d.revision = ${of}.revision AND (${condition}) OFFSET 0
  ) AS other)`

export const bodyBytes = query(
  Schema.Struct({ bytes: Schema.Finite }),
  "SELECT pg_table_size('webhook_endpoint_bodies')::float8 AS bytes"
)

/** Ages of changes are counted in steps of a hundredth of them. */
const stepsOfAge = 100
export const sinceAge = (age: number) => Duration.seconds(Math.expm1(age / stepsOfAge))

/** An endpoint that has pending deliveries of changes between two moments. */
export interface Walked {
  readonly id: string
  first: Timestamp
  newest: Timestamp
}
export const bindWalked = (walked: ReadonlyArray<Walked>) => [
  array(walked.map(({ id }) => id), text),
  array(walked.map(({ first }) => first), float8),
  array(walked.map(({ newest }) => newest), float8)
]

/** The ids of those that may have the delivery of an event. */
const walkedAt = (of: string) =>
  `SELECT id FROM unnest($5::text[], $6::float8[], $7::float8[]) AS walked (id, first, newest)
    WHERE ${of}.created_at BETWEEN ${moment("first")} AND ${moment("newest")}`

/**
 * The bytes of the pending bodies of a page by their age at moment `$4`, without those that an endpoint that was walked before waits for too.
 */
export const backlog = query(
  Schema.Struct({
    last: Schema.NullOr(Timestamp),
    first: Schema.NullOr(Timestamp),
    newest: Schema.NullOr(Timestamp),
    ages: Schema.fromJsonString(Schema.Array(Schema.Tuple([Schema.Int, Schema.Finite])))
  }),
  `WITH ${page(pending)}, counted AS (
    SELECT floor(${stepsOfAge} * ln(1 + greatest(0, extract(epoch FROM ${at} - p.created_at))))::int AS age, sum(b.bytes) AS bytes
    FROM page p JOIN webhook_endpoint_bodies b ON b.task_uuid = p.task_uuid AND b.revision = p.revision AND b.format = p.format
    WHERE NOT ${
    elsewhere(
      "p",
      `(${walkedAt("p")}) AS w`,
      `d.format = p.format AND ${pending}`
    )
  } GROUP BY 1
  ) SELECT ${micros("max(at)")} AS last, ${micros("min(created_at)")} AS first, ${micros("max(created_at)")} AS newest,
    (SELECT coalesce(json_agg(json_build_array(age, bytes)), '[]') FROM counted)::text AS ages FROM page`
)

/** Those of changes until moment `$4`. Empties the bodies that no other endpoint waits for or reads: their rows say whose deliveries those are. */
export const dropBacklog = walk(
  page(pending),
  `${pending} AND d.created_at <= ${at}`,
  "due_at = NULL, dropped = 'backlog'",
  `, emptied AS (
    UPDATE webhook_endpoint_bodies b SET body = '', bytes = 0 FROM chosen c
    WHERE b.task_uuid = c.task_uuid AND b.revision = c.revision AND b.format = c.format
      AND NOT ${
    elsewhere(
      "c",
      `(${walkedAt("c")} AND id <> $1 UNION ALL SELECT id FROM webhook_endpoints WHERE url IS NULL AND id <> $1) AS w`,
      "d.format = c.format AND (d.due_at IS NOT NULL OR d.position IS NOT NULL)"
    )
  }
  )`
)

const rowsBy = (condition: string) =>
  `SELECT d.ctid FROM webhook_endpoint_deliveries d WHERE ${condition} LIMIT $2::int FOR UPDATE SKIP LOCKED`

/** Old deliveries that have ended, and those of removed endpoints, with the bodies that no other delivery needs. */
export const deleteDeliveries = countQuery(
  `WITH deleted AS (
    DELETE FROM webhook_endpoint_deliveries WHERE ${oneAtATime} AND ctid = ANY (ARRAY(
      SELECT old.ctid FROM webhook_endpoints w CROSS JOIN LATERAL (
        ${rowsBy(`d.endpoint_id = w.id AND d.created_at < ${moment("$1")} AND d.due_at IS NULL`)}
      ) AS old LIMIT $2::int
    ) || ARRAY(
      SELECT left_over.ctid FROM webhook_endpoint_removals r CROSS JOIN LATERAL (
        ${rowsBy("d.endpoint_id = r.id")}
      ) AS left_over LIMIT $2::int
    )) RETURNING task_uuid, revision, format, created_at
  ), bodies AS (
    DELETE FROM webhook_endpoint_bodies b USING (SELECT DISTINCT * FROM deleted) AS o
    WHERE b.task_uuid = o.task_uuid AND b.revision = o.revision AND b.format = o.format
      AND NOT ${elsewhere("o", "webhook_endpoints w", `d.due_at IS NOT NULL OR d.created_at >= ${moment("$1")}`)}
  ) SELECT count(*)::int AS count FROM deleted`
)

/** A change that committed after the removal may have made a delivery for the endpoint: what is left is looked for during an hour. */
export const forgetRemovals = `DELETE FROM webhook_endpoint_removals r WHERE r.removed_at < now() - interval '1 hour'
  AND NOT EXISTS (SELECT FROM webhook_endpoint_deliveries d WHERE d.endpoint_id = r.id)`

/** An endpoint that is enabled again is overdue until it goes on. */
export const health = query(
  Schema.Struct({
    disabledReason: Endpoint.fields.disabledReason,
    failingSince: Endpoint.fields.failingSince,
    oldestDue: Schema.NullOr(Timestamp)
  }),
  `SELECT w.disabled_reason AS "disabledReason", ${micros("w.failing_since")} AS "failingSince",
    CASE WHEN w.url IS NOT NULL AND w.disabled_at IS NULL THEN (
      SELECT ${micros("min(d.due_at)")} FROM webhook_endpoint_deliveries d
      WHERE d.endpoint_id = w.id AND ${pending} AND NOT d.sending
    ) END AS "oldestDue"
  FROM webhook_endpoints w`
)
