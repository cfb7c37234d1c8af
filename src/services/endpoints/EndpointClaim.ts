/**
 * The claim of due deliveries, their outcomes and their bodies, in Postgres. A claim reads the oldest of each endpoint, as many as it has permits
 * for, so that its cost does not grow with a backlog and no endpoint waits for another.
 */
import { PgTypes } from "@effect/sql-pg"
import { Duration, Schema } from "effect"
import { OpaqueJson } from "../../domain/json/OpaqueJson.ts"
import { TaskId, TaskStatus } from "../../domain/Task.ts"
import { Timestamp } from "../../domain/Timestamp.ts"
import { array, hidden, micros, moment, query } from "../store/sql/Queries.ts"
import { type AttemptOutcome, type ClaimRequest, largeBody, provenShare } from "../store/webhooks/WebhookStore.ts"
import * as ScanFloor from "../timing/ScanFloor.ts"
import { DisabledReason, Format, giveUpAfter, limits, SealedSecrets } from "./Endpoint.ts"

const { bool, float8, int4, text, uuid } = PgTypes.OID

const Row = Schema.Struct({
  endpointId: Schema.String,
  taskId: TaskId,
  revision: Schema.Int,
  status: TaskStatus,
  format: Format,
  happenedAt: Timestamp,
  ...SealedSecrets.fields,
  url: Schema.String,
  origin: Schema.String,
  isProven: Schema.Boolean,
  attempt: Schema.Int,
  attemptsBefore: Schema.Int,
  isLast: Schema.Boolean,
  dueAt: Timestamp,
  isAfterLost: Schema.Boolean,
  body: Schema.NullOr(OpaqueJson),
  bytes: Schema.Int
})

const ofClaim = {
  /** The oldest due delivery of each endpoint, null without one. Arrays, because an object would have ids as its keys. */
  oldest: Schema.fromJsonString(Schema.Array(Schema.Tuple([Schema.String, Schema.NullOr(Timestamp)]))),
  hasMore: Schema.Boolean
}
/** At least one row, which is empty if nothing was claimed. */
const Claimed = Schema.Union([
  Schema.Struct({ ...Row.fields, ...ofClaim }),
  Schema.Struct({ endpointId: Schema.Null, ...ofClaim })
])

const at = moment("$1")
const limit = hidden("$3::int")
const [ofProven, ofUnproven, ofUser, unprovenOfUser, unproven] = [10, 11, 12, 13, 14].map((number) =>
  hidden(`$${number}::int`)
)
const isDue = `d.due_at <= ${hidden(at)} AND (NOT d.sending OR d.due_at <= ${hidden(moment("$2"))})`

/** A lost attempt is followed by another one even if it was the last: nobody knows whether it was sent. */
export const claim = query(
  Claimed,
  `WITH origins AS (
    SELECT * FROM unnest($4::text[], $5::int4[], $6::bool[]) AS o (origin, permits, is_proven)
  ), users AS (
    SELECT * FROM unnest($7::text[], $8::int4[], $9::int4[]) AS u (id, permits, unproven)
  ), floors AS (
    SELECT * FROM unnest($16::text[], $17::float8[]) AS f (id, since)
  ), known AS (
    SELECT w.*, coalesce(o.is_proven, w.is_proven) AS proven, o.permits AS known_permits, users.permits AS user_permits,
      users.unproven AS user_unproven, ${moment("greatest(f.since, $18::float8)")} AS since
    FROM webhook_endpoints w LEFT JOIN origins o ON o.origin = w.origin LEFT JOIN users ON users.id = w.id
      LEFT JOIN floors f ON f.id = w.id
    WHERE w.url IS NOT NULL AND w.disabled_at IS NULL
  ), endpoint AS MATERIALIZED (
    SELECT *, coalesce(known_permits, CASE WHEN proven THEN ${ofProven} ELSE ${ofUnproven} END) AS of_origin, least(
        coalesce(known_permits, CASE WHEN proven THEN ${ofProven} ELSE ${ofUnproven} END),
        coalesce(user_permits, ${ofUser}),
        CASE WHEN NOT proven THEN least(${unproven}, coalesce(user_unproven, ${unprovenOfUser})) END, ${limit}
      ) AS permits
    FROM known
  ), found AS MATERIALIZED (
    SELECT e.id, e.origin, e.proven, e.permits, e.of_origin, d.ctid, d.due_at, row_number() OVER (
        PARTITION BY e.id ORDER BY random()
      ) AS turn
    FROM endpoint e CROSS JOIN LATERAL (
      SELECT d.ctid, d.due_at FROM webhook_endpoint_deliveries d
      WHERE d.endpoint_id = e.id AND ${isDue} AND d.due_at >= e.since
      ORDER BY d.due_at LIMIT greatest(1, 2 * e.permits)
    ) AS d
  ), permitted AS (
    SELECT *, row_number() OVER (PARTITION BY origin ORDER BY turn, due_at) AS in_origin FROM found WHERE turn <= permits
  ), locked AS (
    SELECT d.ctid, d.due_at AS was_due_at, d.sending AS is_after_lost, chosen.proven
    FROM (
      SELECT *, CASE WHEN proven THEN turn ELSE turn * ${provenShare} END AS position
      FROM permitted WHERE in_origin <= of_origin ORDER BY position LIMIT ${limit}
    ) AS chosen JOIN webhook_endpoint_deliveries d ON d.ctid = chosen.ctid AND (${isDue}) IS TRUE
    FOR UPDATE OF d SKIP LOCKED
  ), claimed AS (
    UPDATE webhook_endpoint_deliveries d SET attempts = d.attempts + 1, sending = true, started_at = ${at},
      due_at = ${at} + make_interval(secs => ($15::float8[])[
        least(greatest(d.attempts + 1 - d.attempts_before, 1), array_length($15::float8[], 1))
      ])
    FROM locked WHERE d.ctid = locked.ctid RETURNING d.*, was_due_at, is_after_lost, proven
  ), shown AS (
    SELECT c.endpoint_id AS "endpointId", c.task_uuid AS "taskId", c.revision, c.status, c.format,
      ${micros("c.created_at")} AS "happenedAt", w.secret, w.old_secret AS "oldSecret",
      ${
    micros("w.old_secret_until")
  } AS "oldSecretUntil", w.url, w.origin, c.proven AS "isProven", c.attempts AS attempt,
      c.attempts_before AS "attemptsBefore", c.attempts >= c.attempts_allowed AS "isLast",
      ${micros("c.was_due_at")} AS "dueAt", c.is_after_lost AS "isAfterLost",
      CASE WHEN b.bytes <= ${largeBody} THEN b.body END AS body, coalesce(b.bytes, 0) AS bytes
    FROM claimed c JOIN endpoint w ON w.id = c.endpoint_id LEFT JOIN webhook_endpoint_bodies b
      ON b.task_uuid = c.task_uuid AND b.revision = c.revision AND b.format = c.format
  )
  SELECT head.*, shown.* FROM (
    SELECT (
        SELECT coalesce(json_agg(json_build_array(e.id, (
          SELECT ${micros("min(f.due_at)")}::bigint FROM found f WHERE f.id = e.id
        ))), '[]') FROM endpoint e
      )::text AS oldest,
      (SELECT count(*) FROM found WHERE permits > 0) > (SELECT count(*) FROM claimed)
        AND EXISTS (SELECT FROM claimed) AS "hasMore"
  ) AS head LEFT JOIN shown ON true`
)

export const bindClaim = (
  { at, from = ScanFloor.lowest, leases, limit, lostBefore, permits }: ClaimRequest,
  floors: ReadonlyMap<string, Timestamp>
) => {
  const { byOrigin, byUser, ofProven, ofUnproven, ofUser, unproven } = permits
  const origins = [...byOrigin.values()]
  const users = [...byUser.values()]
  return [
    at,
    lostBefore,
    limit,
    array([...byOrigin.keys()], text),
    array(origins.map(({ permits }) => permits), int4),
    array(origins.map(({ isProven }) => isProven), bool),
    array([...byUser.keys()], text),
    array(users.map(({ total }) => total), int4),
    array(users.map(({ unproven }) => unproven), int4),
    ofProven,
    ofUnproven,
    ofUser.total,
    ofUser.unproven,
    unproven,
    array(leases.map((lease) => Duration.toSeconds(lease)), float8),
    array([...floors.keys()], text),
    array([...floors.values()], float8),
    from
  ]
}

const ofKey = "endpoint_id = $1 AND task_uuid = $2::uuid AND revision = $3::int"

export const body = query(
  Schema.Struct({ body: OpaqueJson }),
  `SELECT b.body FROM webhook_endpoint_deliveries d
  JOIN webhook_endpoint_bodies b ON b.task_uuid = d.task_uuid AND b.revision = d.revision AND b.format = d.format
  WHERE d.endpoint_id = $1 AND d.task_uuid = $2::uuid AND d.revision = $3::int`
)

/** Does nothing once the delivery has been claimed again. */
export const postpone = `UPDATE webhook_endpoint_deliveries SET attempts = attempts - 1, sending = false, due_at = ${
  moment("$4")
}
  WHERE ${ofKey} AND attempts = $5::int AND sending AND started_at = ${moment("$6")}`

const logged = `jsonb_build_object('number', o.attempt, 'startedAt', ${micros("d.started_at")}::bigint,
  'duration', o.duration, 'responseStatus', o.response_status, 'error', o.error)`

/**
 * A success counts whenever it arrives; a failure only while no later attempt has been claimed. What is known of an endpoint changes rarely, so
 * its row is rarely locked, and always in the order of the ids.
 */
export const recordOutcomes = query(
  Schema.Struct({ id: Schema.String, url: Schema.NullOr(Schema.String), reason: DisabledReason }),
  `WITH outcome AS (
    SELECT * FROM unnest(
      $1::text[], $2::uuid[], $3::int4[], $4::int4[], $5::float8[], $6::int4[], $7::int4[], $8::text[], $9::float8[]
    ) AS o (endpoint_id, task_uuid, revision, attempt, ended, duration, response_status, error, next)
  ), decisive AS (
    SELECT DISTINCT ON (endpoint_id, task_uuid, revision) * FROM outcome
    ORDER BY endpoint_id, task_uuid, revision, error IS NULL DESC, attempt DESC
  ), recorded AS (
    UPDATE webhook_endpoint_deliveries d SET
      log = CASE WHEN jsonb_array_length(d.log) >= ${limits.loggedAttempts} THEN d.log - 0
        ELSE coalesce(d.log, '[]') END || ${logged},
      delivered_at = CASE WHEN o.error IS NULL THEN ${moment("o.ended")} ELSE d.delivered_at END,
      due_at = CASE WHEN o.error IS NOT NULL
        THEN coalesce(${moment("o.next")}, CASE WHEN d.attempts_allowed > d.attempts THEN ${moment("o.ended")} END) END,
      sending = false
    FROM decisive o
    WHERE d.endpoint_id = o.endpoint_id AND d.task_uuid = o.task_uuid AND d.revision = o.revision
      AND (o.error IS NULL OR (d.sending AND d.attempts = o.attempt))
  ), health AS (
    SELECT endpoint_id AS id, bool_or(error IS NULL) AS is_success, bool_or(response_status IS NOT NULL) AS has_responded,
      bool_or(response_status = 410) IS TRUE AS is_gone, ${moment("min(ended)")} AS first_at, ${
    moment("max(ended)")
  } AS last_at
    FROM outcome WHERE error IS DISTINCT FROM 'not_sent' GROUP BY endpoint_id
  ), changed AS (
    SELECT h.*, h.is_gone OR (NOT h.is_success AND h.last_at - w.failing_since >= interval '${
    Duration.toSeconds(giveUpAfter)
  } seconds') IS TRUE AS ends
    FROM webhook_endpoints w JOIN health h ON h.id = w.id
    WHERE h.is_gone OR h.has_responded <> w.is_proven OR CASE WHEN h.is_success
      THEN w.failing_since IS NOT NULL OR w.succeeded_at IS NULL OR h.last_at - w.succeeded_at > interval '1 minute'
      ELSE w.failing_since IS NULL OR h.last_at - w.failing_since >= interval '${
    Duration.toSeconds(giveUpAfter)
  } seconds' END
    ORDER BY w.id FOR NO KEY UPDATE OF w
  ), updated AS (
    UPDATE webhook_endpoints w SET
      is_proven = c.has_responded,
      failing_since = CASE WHEN NOT c.is_success THEN coalesce(w.failing_since, c.first_at) END,
      succeeded_at = CASE WHEN c.is_success THEN c.last_at ELSE w.succeeded_at END,
      disabled_at = CASE WHEN c.ends THEN coalesce(w.disabled_at, c.last_at) ELSE w.disabled_at END,
      disabled_reason = CASE WHEN c.ends AND w.disabled_at IS NULL THEN CASE WHEN c.is_gone THEN 'gone' ELSE 'failing' END
        ELSE w.disabled_reason END
    FROM changed c WHERE w.id = c.id
    RETURNING w.id, w.url, w.disabled_reason, w.disabled_at = c.last_at AND c.ends AS is_new
  )
  SELECT id, url, disabled_reason AS reason FROM updated WHERE is_new`
)

export const bindOutcomes = (outcomes: ReadonlyArray<AttemptOutcome>) => [
  array(outcomes.map(({ sub }) => sub), text),
  array(outcomes.map(({ taskId }) => taskId), uuid),
  array(outcomes.map(({ revision }) => revision), int4),
  array(outcomes.map(({ attempt }) => attempt), int4),
  array(outcomes.map(({ endedAt }) => endedAt), float8),
  array(outcomes.map(({ duration }) => duration), int4),
  array(outcomes.map(({ responseStatus }) => responseStatus), int4),
  array(outcomes.map(({ error }) => error), text),
  array(outcomes.map(({ nextAttemptAt }) => nextAttemptAt), float8)
]
