/**
 * The claim of due deliveries, their outcomes and their bodies, in Postgres. A claim reads the oldest of each endpoint, as many as it has permits
 * for, so that its cost does not grow with a backlog and no endpoint waits for another.
 */
import { PgTypes } from "@effect/sql-pg"
import { Duration, Schema } from "effect"
import { OpaqueJson } from "../../domain/json/OpaqueJson.ts"
import * as Limits from "../../domain/Limits.ts"
import { TaskId, TaskStatus } from "../../domain/Task.ts"
import { Timestamp } from "../../domain/Timestamp.ts"
import { array, micros, moment, query } from "../store/sql/Queries.ts"
import * as WebhookClaim from "../store/webhooks/WebhookClaim.ts"
import * as WebhookStatements from "../store/webhooks/WebhookStatements.ts"
import { type AttemptOutcome, type ClaimRequest, provenShare } from "../store/webhooks/WebhookStore.ts"
import { DisabledReason, Format, giveUpAfter, limits, SealedSecrets } from "./Endpoint.ts"
import type { EndpointDelivery } from "./EndpointsStore.ts"

const { float8, text } = PgTypes.OID

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
  /** The oldest due delivery of each endpoint, null without one: in one of the rows. Arrays, because an object would have ids as its keys. */
  oldest: Schema.NullOr(
    Schema.fromJsonString(Schema.Array(Schema.Tuple([Schema.String, Schema.NullOr(Timestamp)])))
  ),
  hasMore: Schema.Boolean
}
/** At least one row, which is empty if nothing was claimed. */
const Claimed = Schema.Union([
  Schema.Struct({ ...Row.fields, ...ofClaim }),
  Schema.Struct({ endpointId: Schema.Null, ...ofClaim })
])

const { at, from, leases, limit, lostBefore, ofProven, ofUnproven, ofUser, permits, unproven, unprovenOfUser } =
  WebhookClaim.bound

/** Endpoints that are sent to now. One that goes on again is, once its deliveries are in order. */
export const isSent = "w.url IS NOT NULL AND w.disabled_at IS NULL AND w.resumes_at IS NULL"

/** A delivery that is not being sent, or whose attempt is lost by a moment. */
export const isFree = (by: string) => `(NOT d.sending OR d.leased_until <= ${by})`

/** The body `b` of a delivery. That of one that was given up is empty. */
export const bodyOf = (delivery: string) =>
  `b.task_uuid = ${delivery}.task_uuid AND b.revision = ${delivery}.revision AND b.format = ${delivery}.format AND b.bytes > 0`

const isDue = `d.due_at <= ${at} AND ${isFree(lostBefore)}`

/** Full scans find a lease that ends later than this. */
const soon = "interval '1 minute'"

/** A lost attempt is followed by another one even if it was the last: nobody knows whether it was sent. */
export const claim = query(
  Claimed,
  `WITH ${permits}, floors AS (
    SELECT * FROM unnest(@endpoints::text[], @floors::float8[]) AS f (id, since)
  ), known AS (
    SELECT w.*, coalesce(o.is_proven, w.is_proven) AS proven, o.permits AS known_permits, users.permits AS user_permits,
      users.unproven AS user_unproven, greatest(${moment("f.since")}, ${from}) AS since
    FROM webhook_endpoints w LEFT JOIN origins o ON o.origin = w.origin LEFT JOIN users ON users.sub = w.id
      LEFT JOIN floors f ON f.id = w.id
    WHERE ${isSent}
  ), endpoint AS MATERIALIZED (
    SELECT known.*, of_origin, least(
        of_origin, coalesce(user_permits, ${ofUser}), ${limit},
        CASE WHEN NOT proven THEN least(${unproven}, coalesce(user_unproven, ${unprovenOfUser})) END
      ) AS permits
    FROM known CROSS JOIN LATERAL (
      SELECT coalesce(known_permits, CASE WHEN proven THEN ${ofProven} ELSE ${ofUnproven} END) AS of_origin
    ) AS own
  ), found AS MATERIALIZED (
    SELECT e.id, e.origin, e.proven, e.permits, e.of_origin, d.ctid, d.due_at, row_number() OVER (
        PARTITION BY e.id ORDER BY random()
      ) AS turn
    FROM endpoint e CROSS JOIN LATERAL (
      SELECT d.ctid, d.due_at FROM webhook_endpoint_deliveries d
      WHERE d.endpoint_id = e.id AND ${isDue} AND d.due_at >= e.since
      ORDER BY d.due_at LIMIT greatest(0, 2 * e.permits)
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
      leased_until = ${at} + make_interval(secs => (${leases})[
        least(greatest(d.attempts + 1 - d.attempts_before, 1), array_length(${leases}, 1))
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
      CASE WHEN b.bytes <= ${Limits.smallText} THEN b.body END AS body, coalesce(b.bytes, 0) AS bytes
    FROM claimed c JOIN endpoint w ON w.id = c.endpoint_id LEFT JOIN webhook_endpoint_bodies b ON ${bodyOf("c")}
  )
  SELECT CASE WHEN row_number() OVER () = 1 THEN head.oldest END AS oldest, head."hasMore", shown.* FROM (
    SELECT (
        SELECT coalesce(json_agg(json_build_array(e.id, (
          SELECT ${micros("d.due_at")}::bigint FROM webhook_endpoint_deliveries d
          WHERE d.endpoint_id = e.id AND d.due_at <= ${at} AND d.due_at >= e.since AND ${isFree(`${at} + ${soon}`)}
          ORDER BY d.due_at LIMIT 1
        ))), '[]') FROM endpoint e
      )::text AS oldest,
      (SELECT count(*) FROM found) > (SELECT count(*) FROM claimed) AND EXISTS (SELECT FROM claimed) AS "hasMore"
  ) AS head LEFT JOIN shown ON true`
)

export const bindClaim = (request: ClaimRequest, floors: ReadonlyMap<string, Timestamp>) => ({
  ...WebhookClaim.bind(request),
  endpoints: array([...floors.keys()], text),
  floors: array([...floors.values()], float8)
})

const ofKey = `d.endpoint_id = $1 AND d.created_at = ${
  moment("$2")
} AND d.task_uuid = $3::uuid AND d.revision = $4::int`

export const bindKey = ({ happenedAt, revision, sub, taskId }: Pick<
  EndpointDelivery,
  "happenedAt" | "revision" | "sub" | "taskId"
>) => [sub, happenedAt, taskId, revision]

export const body = query(
  Schema.Struct({ body: OpaqueJson }),
  `SELECT b.body FROM webhook_endpoint_deliveries d JOIN webhook_endpoint_bodies b ON ${bodyOf("d")} WHERE ${ofKey}`
)

/** Does nothing once the delivery has been claimed again. */
export const postpone = `UPDATE webhook_endpoint_deliveries d SET attempts = attempts - 1, sending = false, due_at = ${
  moment("$5")
}
  WHERE ${ofKey} AND attempts = $6::int AND sending AND started_at = ${moment("$7")}`

const logged = `jsonb_build_object('number', o.attempt, 'startedAt', ${micros("d.started_at")}::bigint,
  'duration', o.duration, 'responseStatus', o.response_status, 'error', o.error)`

/**
 * A success counts whenever it arrives; a failure only while no later attempt has been claimed. What is known of an endpoint changes rarely, so
 * its row is rarely locked: in the order of the ids, and before deliveries (`count`), as by readers. An attempt that began before an operator
 * changed the endpoint says nothing of it.
 */
export const recordOutcomes = query(
  Schema.Struct({ id: Schema.String, url: Schema.NullOr(Schema.String), reason: DisabledReason }),
  `WITH outcome AS (
    SELECT *, ${moment("happened")} AS created_at FROM unnest(
      $1::uuid[], $2::int4[], $3::int4[], $4::float8[], $5::int4[], $6::int4[], $7::text[], $8::float8[], $9::text[],
      $10::text[], $11::float8[]
    ) AS o (task_uuid, revision, attempt, ended, duration, response_status, error, next, origin, endpoint_id, happened)
  ), decisive AS (
    SELECT DISTINCT ON (endpoint_id, task_uuid, revision) * FROM outcome
    ORDER BY endpoint_id, task_uuid, revision, error IS NULL DESC, attempt DESC
  ), health AS (
    SELECT endpoint_id AS id, bool_or(error IS NULL) AS is_success, bool_or(response_status IS NOT NULL) AS has_responded,
      bool_or(response_status = 410) IS TRUE AS is_gone, ${moment("min(ended)")} AS first_at, ${
    moment("max(ended)")
  } AS last_at
    FROM outcome o JOIN webhook_endpoints w ON w.id = o.endpoint_id
    WHERE error IS DISTINCT FROM 'not_sent' AND ${moment("(o.ended - 1000 * o.duration::float8)")} >= w.updated_at
    GROUP BY endpoint_id
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
  ), recorded AS (
    UPDATE webhook_endpoint_deliveries d SET
      log = CASE WHEN jsonb_array_length(d.log) >= ${limits.loggedAttempts} THEN d.log - 0
        ELSE coalesce(d.log, '[]') END || ${logged},
      delivered_at = CASE WHEN o.error IS NULL THEN ${moment("o.ended")} ELSE d.delivered_at END,
      due_at = CASE WHEN o.error IS NOT NULL
        THEN coalesce(${moment("o.next")}, CASE WHEN d.attempts_allowed > d.attempts THEN ${moment("o.ended")} END) END,
      sending = false
    FROM decisive o
    WHERE d.endpoint_id = o.endpoint_id AND d.created_at = o.created_at AND d.task_uuid = o.task_uuid
      AND d.revision = o.revision AND (o.error IS NULL OR (d.sending AND d.attempts = o.attempt))
      AND (SELECT count(*) >= 0 FROM changed)
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
  ...WebhookStatements.bindOutcomes(outcomes),
  array(outcomes.map(({ sub }) => sub), text),
  array(outcomes.map(({ happenedAt }) => happenedAt), float8)
]
