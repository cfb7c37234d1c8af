/**
 * The claim of due deliveries, as one statement. Usually it reads all that is due, which two indexes find by their moment. In a backlog
 * it reads a sample of the queues, of which each user has one for each origin, so that its cost does not grow with the backlog
 * and nobody waits for all deliveries of others.
 */
import { PgTypes } from "@effect/sql-pg"
import { Duration, Schema } from "effect"
import * as Limits from "../../../domain/Limits.ts"
import { Timestamp } from "../../../domain/Timestamp.ts"
import * as ScanFloor from "../../timing/ScanFloor.ts"
import { array, hidden, micros, moment, query } from "../sql/Queries.ts"
import { bodyColumnsOf, BodyFields, bodyTables, turnOf } from "./WebhookStatements.ts"
import { type ClaimRequest, provenShare } from "./WebhookStore.ts"

/** Deliveries that are due above which there is a backlog, and deliveries that are read then. */
const backlog = 256
/** Queues that one walk visits, and of one user. */
const walkedQueues = 256
const queuesOfUser = 64
/** Deliveries chosen for each that may be claimed, so that a node finds some beside the claims of three others. */
const lookahead = 4
const [lowest, highest] = [-(2 ** 31), 2 ** 31 - 1]
const randomHash = `(floor(random() * 4294967296) - 2147483648)::int`

const { bool, float8, int4, text } = PgTypes.OID

const Row = Schema.Struct({
  ...BodyFields,
  url: Schema.String,
  origin: Schema.String,
  isProven: Schema.Boolean,
  attempt: Schema.Int,
  isLast: Schema.Boolean,
  dueAt: Timestamp,
  isAfterLost: Schema.Boolean,
  secret: Schema.NullOr(Schema.String),
  bytes: Schema.Int,
  hasMore: Schema.Boolean,
  oldest: Timestamp
})

const intOf = (name: string) => hidden(`@${name}::int`)

/** The parameters of every claim, see `bind`. */
export const bound = {
  at: moment("@at"),
  lostBefore: hidden(moment("@lostBefore")),
  limit: intOf("limit"),
  /** Permits by origin and by user. */
  permits: `origins AS (
    SELECT * FROM unnest(${hidden("@origins::text[]")}, ${hidden("@permitsOfOrigins::int4[]")}, ${
    hidden("@areProven::bool[]")
  })
      AS o (origin, permits, is_proven)
  ), users AS (
    SELECT * FROM unnest(${hidden("@users::text[]")}, ${hidden("@permitsOfUsers::int4[]")}, ${
    hidden("@unprovenOfUsers::int4[]")
  })
      AS u (sub, permits, unproven)
  )`,
  ofProven: intOf("ofProven"),
  ofUnproven: intOf("ofUnproven"),
  ofUser: intOf("ofUser"),
  unprovenOfUser: intOf("unprovenOfUser"),
  unproven: intOf("unproven"),
  leases: "@leases::float8[]",
  /** See `ScanFloor`. */
  from: hidden(moment("@from"))
}
const { at, from, leases, limit, lostBefore, ofProven, ofUnproven, ofUser, permits, unproven, unprovenOfUser } = bound

const isPending = `d.due_at >= ${from} AND d.attempts < d.attempts_allowed`
const isDue = `d.due_at <= ${hidden(at)} AND ${isPending}
  AND (NOT d.sending OR d.due_at <= ${lostBefore})`

/**
 * Each walk goes from one queue to the next in the index. `in_user` counts the queues of the user; the first of them is followed by the
 * one after `from_hash`, and the last one by the next user. Three walks begin: one at the first user with the first origins of each,
 * one there with random origins, one at a random user with random origins.
 */
const walk = `walk AS (
    SELECT crowded.is_proven, start.from_hash, start.sub_hash, ${highest} AS origin_hash, ${queuesOfUser} AS in_user, 0 AS step
    FROM crowded, (
      VALUES (${lowest}, ${lowest}), (${randomHash}, ${lowest}), (${randomHash}, ${randomHash})
    ) AS start (from_hash, sub_hash)
    UNION ALL
    SELECT w.is_proven, w.from_hash, next.sub_hash, next.origin_hash,
      CASE WHEN next.sub_hash = w.sub_hash THEN w.in_user + 1 ELSE 1 END, w.step + 1
    FROM walk w CROSS JOIN LATERAL (
      SELECT hashtext(d.sub) AS sub_hash, hashtext(d.origin) AS origin_hash FROM webhook_deliveries d
      WHERE d.is_proven = w.is_proven AND ${isPending} AND (hashtext(d.sub), hashtext(d.origin)) > (
        w.sub_hash, CASE WHEN w.in_user >= ${queuesOfUser} THEN ${highest}
          WHEN w.in_user = 1 THEN greatest(w.origin_hash, w.from_hash) ELSE w.origin_hash END
      )
      ORDER BY hashtext(d.sub), hashtext(d.origin) LIMIT 1
    ) AS next WHERE w.step < ${walkedQueues}
  )`

const candidateColumns = "d.ctid, d.is_proven, d.sub, d.origin, d.due_at"

/** Deliveries that are due: all, or a sample of each part that is crowded. */
const candidates = `head AS (
    SELECT found.* FROM (VALUES (true), (false)) AS part (is_proven) CROSS JOIN LATERAL (
      SELECT ${candidateColumns} FROM webhook_deliveries d WHERE d.is_proven = part.is_proven AND ${isDue}
      ORDER BY d.due_at LIMIT ${backlog}
    ) AS found
  ), crowded AS (
    SELECT is_proven FROM head GROUP BY is_proven HAVING count(*) >= ${backlog}
  ), ${walk}, queues AS (
    SELECT DISTINCT is_proven, sub_hash, origin_hash FROM walk WHERE step > 0
  ), candidates AS (
    SELECT *, false AS is_sample FROM head WHERE is_proven <> ALL (ARRAY(SELECT is_proven FROM crowded))
    UNION ALL
    SELECT found.*, true FROM queues CROSS JOIN LATERAL (
      SELECT ${candidateColumns} FROM webhook_deliveries d
      WHERE d.is_proven = queues.is_proven AND hashtext(d.sub) = queues.sub_hash
        AND hashtext(d.origin) = queues.origin_hash AND ${isDue}
      ORDER BY d.due_at LIMIT (SELECT greatest(1, ${backlog} / count(*)) FROM queues)
    ) AS found
  )`

/**
 * The candidates that have permits, in their order. Users take turns, and so do the origins of a user. A sample is in random order, because
 * the oldest deliveries of a backlog would otherwise be first again and again.
 */
const ranked = `known AS (
    SELECT c.ctid, c.sub, c.origin, c.due_at, c.is_sample, origins.permits,
      coalesce(origins.is_proven, EXISTS (SELECT FROM webhook_origins o WHERE o.origin = c.origin)) AS is_proven
    FROM candidates c LEFT JOIN origins ON origins.origin = c.origin
  ), permitted AS (
    SELECT c.*, row_number() OVER (PARTITION BY origin ORDER BY due_at) AS in_origin
    FROM (
      SELECT ctid, known.sub, origin, due_at, is_sample, is_proven, coalesce(users.permits, ${ofUser}) AS of_user,
        coalesce(known.permits, CASE WHEN is_proven THEN ${ofProven} ELSE ${ofUnproven} END) AS of_origin,
        CASE WHEN NOT is_proven THEN least(${unproven}, coalesce(users.unproven, ${unprovenOfUser})) END AS unproven
      FROM known LEFT JOIN users ON users.sub = known.sub
    ) AS c WHERE least(of_user, of_origin, unproven) > 0
  ), in_turns AS (
    SELECT *, row_number() OVER (PARTITION BY sub ORDER BY is_proven DESC, in_origin, due_at) AS in_user,
      row_number() OVER (PARTITION BY sub, is_proven ORDER BY in_origin, due_at) AS turn
    FROM permitted WHERE in_origin <= of_origin
  ), in_order AS (
    SELECT *, row_number() OVER (
      PARTITION BY is_proven ORDER BY turn, CASE WHEN is_sample THEN random() END, due_at
    ) AS position
    FROM in_turns WHERE in_user <= of_user AND (is_proven OR turn <= unproven)
  ), ranked AS (
    SELECT ctid, is_proven, CASE WHEN is_proven THEN position ELSE position * ${provenShare} END AS position
    FROM in_order WHERE is_proven OR position <= ${unproven}
  )`

/**
 * `locked` repeats the conditions on each row as it is once it is locked. A row that another transaction has changed since the
 * statement began is left to the next claim.
 */
export const claim = query(
  Row,
  `WITH RECURSIVE ${permits}, ${candidates}, ${ranked}, locked AS (
    SELECT d.ctid, chosen.is_proven AS was_proven, d.due_at AS was_due_at, d.sending AS is_after_lost
    FROM (SELECT * FROM ranked ORDER BY position LIMIT ${limit} * ${lookahead}) AS chosen
    JOIN webhook_deliveries d ON d.ctid = chosen.ctid AND (${isDue}) IS TRUE
    ORDER BY chosen.position LIMIT ${limit} FOR UPDATE OF d SKIP LOCKED
  ), claimed AS (
    UPDATE webhook_deliveries d SET attempts = d.attempts + 1, sending = true,
      due_at = ${at}
        + make_interval(secs => (${leases})[least(d.attempts + 1, array_length(${leases}, 1))])
    FROM locked WHERE d.ctid = locked.ctid
    RETURNING d.*, was_proven, was_due_at, is_after_lost, octet_length(coalesce(d.pending_tool_calls, '')) AS calls_bytes
  ), attempt AS (
    INSERT INTO webhook_attempts (task_uuid, revision, number, started_at)
    SELECT task_uuid, revision, attempts, ${at} FROM claimed
  )
  SELECT ${bodyColumnsOf("shown")}, shown.turn, d.url, d.origin, was_proven AS "isProven", d.attempts AS attempt,
    d.attempts >= d.attempts_allowed AS "isLast", d.callback_secret AS secret, ${micros("was_due_at")} AS "dueAt",
    is_after_lost AS "isAfterLost", shown.bytes,
    (SELECT count(*) FROM permitted) > (SELECT count(*) FROM locked) OR EXISTS (SELECT FROM crowded) AS "hasMore",
    ${micros("(SELECT min(due_at) FROM head)")} AS oldest
  FROM claimed d ${bodyTables}
  CROSS JOIN LATERAL (SELECT calls_bytes + coalesce(octet_length(${turnOf}), 0) AS bytes) AS size
  CROSS JOIN LATERAL (
    SELECT bytes, CASE WHEN bytes <= ${Limits.smallText} THEN d.pending_tool_calls END AS pending_tool_calls,
      CASE WHEN bytes <= ${Limits.smallText} THEN ${turnOf} END AS turn
  ) AS shown`
)

export const bind = ({ at, from = ScanFloor.lowest, leases, limit, lostBefore, permits }: ClaimRequest) => {
  const { byOrigin, byUser, ofProven, ofUnproven, ofUser, unproven } = permits
  const origins = [...byOrigin.values()]
  const users = [...byUser.values()]
  return {
    at,
    lostBefore,
    limit,
    origins: array([...byOrigin.keys()], text),
    permitsOfOrigins: array(origins.map(({ permits }) => permits), int4),
    areProven: array(origins.map(({ isProven }) => isProven), bool),
    users: array([...byUser.keys()], text),
    permitsOfUsers: array(users.map(({ total }) => total), int4),
    unprovenOfUsers: array(users.map(({ unproven }) => unproven), int4),
    ofProven,
    ofUnproven,
    ofUser: ofUser.total,
    unprovenOfUser: ofUser.unproven,
    unproven,
    leases: array(leases.map((lease) => Duration.toSeconds(lease)), float8),
    from
  }
}
