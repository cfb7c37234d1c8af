/** Claims of moments and their runs in Postgres. Each is one statement for many of them. */
import { PgTypes } from "@effect/sql-pg"
import { Effect, Schema } from "effect"
import { plus, Timestamp } from "../../domain/Timestamp.ts"
import { array, countQuery, make as makeQueries, micros, moment, query } from "../store/sql/Queries.ts"
import { isLive } from "../store/tasks/TaskColumns.ts"
import * as ScanFloor from "../timing/ScanFloor.ts"
import { Definition, limits, ScheduleId } from "./Schedule.ts"
import { columns, scheduleOf, ScheduleRow } from "./ScheduleReadsSql.ts"
import type { Attempted, FiringClaim, PendingRun, SchedulesStore } from "./SchedulesStore.ts"

const due = query(
  Schema.Struct({ id: ScheduleId, definition: Schema.fromJsonString(Definition), nextAt: Timestamp }),
  `SELECT id, definition, ${micros("next_at")} AS "nextAt" FROM schedules
  WHERE state = 'active' AND due_at <= ${moment("$1")} AND due_at >= ${moment("$3")}
  ORDER BY due_at LIMIT $2::int`
)

const PendingRow = Schema.Struct({
  ...ScheduleRow.fields,
  scheduledFor: Timestamp,
  attempt: Schema.Int,
  error: Schema.NullOr(Schema.String),
  isOverlapping: Schema.Boolean
})

/** Runs in `leased` with their schedules. */
const pendingColumns = `${columns}, ${micros("leased.scheduled_for")} AS "scheduledFor", leased.attempt, leased.error,
  EXISTS (
    SELECT FROM tasks t WHERE t.uuid = s.last_task AND t.${isLive}
  ) AS "isOverlapping"`

/** Rows that another node is claiming are left to it. */
const claim = query(
  PendingRow,
  `WITH given AS (
    SELECT id, to_timestamp(due / 1000000) AS due, to_timestamp(next / 1000000) AS next,
      to_timestamp(next_due / 1000000) AS next_due, to_timestamp(last / 1000000) AS last,
      to_timestamp(run / 1000000) AS run, to_timestamp(missed_from / 1000000) AS missed_from, missed
    FROM unnest($1::uuid[], $2::float8[], $3::float8[], $4::float8[], $5::float8[], $6::float8[], $7::float8[], $8::int[])
      AS given (id, due, next, next_due, last, run, missed_from, missed)
  ), locked AS (
    SELECT s.id FROM schedules s JOIN given g ON g.id = s.id AND s.next_at = g.due
    WHERE s.state = 'active' ORDER BY s.id FOR NO KEY UPDATE OF s SKIP LOCKED
  ), claimed AS (
    UPDATE schedules s SET next_at = g.next, due_at = g.next_due, last_at = g.last, revision = s.revision + 1,
      state = CASE WHEN g.next IS NULL THEN 'ended' ELSE 'active' END,
      ended_at = CASE WHEN g.next IS NULL THEN ${moment("$9")} END
    FROM given g, locked l WHERE l.id = s.id AND g.id = s.id AND s.next_at = g.due AND s.state = 'active'
    RETURNING s.id, g.run, g.missed_from, g.missed
  ), missed AS (
    INSERT INTO schedule_runs (schedule_id, scheduled_for, outcome, count)
    SELECT id, missed_from, 'missed', missed FROM claimed WHERE missed_from IS NOT NULL ON CONFLICT DO NOTHING
  ), leased AS (
    INSERT INTO schedule_runs AS r (schedule_id, scheduled_for, outcome, attempt, try_at)
    SELECT id, run, 'due', 1, ${moment("$10")} FROM claimed WHERE run IS NOT NULL ON CONFLICT DO NOTHING
    RETURNING r.schedule_id, r.scheduled_for, r.attempt, r.error
  )
  SELECT ${pendingColumns} FROM leased JOIN schedules s ON s.id = leased.schedule_id`
)

const takeOver = query(
  PendingRow,
  `WITH leased AS (
    UPDATE schedule_runs r SET attempt = r.attempt + 1, try_at = ${moment("$2")}
    FROM (
      SELECT schedule_id, scheduled_for FROM schedule_runs WHERE try_at <= ${moment("$1")} AND try_at >= ${moment("$4")}
      ORDER BY try_at LIMIT $3::int FOR NO KEY UPDATE SKIP LOCKED
    ) AS found
    WHERE r.schedule_id = found.schedule_id AND r.scheduled_for = found.scheduled_for
    RETURNING r.schedule_id, r.scheduled_for, r.attempt, r.error
  )
  SELECT ${pendingColumns} FROM leased JOIN schedules s ON s.id = leased.schedule_id`
)

const nextDue = query(
  Schema.Struct({ at: Schema.NullOr(Timestamp) }),
  `SELECT ${micros("least(a.at, b.at)")} AS at FROM
    (SELECT min(due_at) AS at FROM schedules WHERE state = 'active' AND due_at >= ${moment("$1")}) AS a,
    (SELECT min(try_at) AS at FROM schedule_runs WHERE try_at >= ${moment("$1")}) AS b`
)

const tokenMessage = `Its last ${limits.tokenFailures} runs failed because no token could be obtained`

const record = `WITH given AS (
    SELECT id, to_timestamp(moment / 1000000) AS moment, outcome, to_timestamp(started / 1000000) AS started, task,
      error, to_timestamp(try_at / 1000000) AS try_at, lacks_token
    FROM unnest($1::uuid[], $2::float8[], $3::text[], $4::float8[], $5::uuid[], $6::text[], $7::float8[], $8::bool[])
      AS given (id, moment, outcome, started, task, error, try_at, lacks_token)
  ), recorded AS (
    UPDATE schedule_runs r SET outcome = g.outcome, started_at = g.started, task_uuid = g.task, error = g.error,
      try_at = g.try_at, watched = g.task IS NOT NULL
        AND EXISTS (SELECT FROM schedules s WHERE s.id = g.id AND s.pause_after_failures IS NOT NULL)
    FROM given g WHERE r.schedule_id = g.id AND r.scheduled_for = g.moment AND r.try_at IS NOT NULL
    RETURNING r.schedule_id, r.outcome, r.task_uuid, g.lacks_token
  ), counted AS (
    SELECT s.id, n.task_uuid, CASE
        WHEN n.outcome = 'failed' AND n.lacks_token THEN s.token_failures + 1
        WHEN n.outcome = 'created' THEN 0 ELSE s.token_failures END AS failures
    FROM recorded n JOIN schedules s ON s.id = n.schedule_id
    WHERE n.task_uuid IS NOT NULL OR n.outcome = 'failed'
    ORDER BY s.id FOR NO KEY UPDATE OF s
  )
  UPDATE schedules s SET last_task = coalesce(c.task_uuid, s.last_task), token_failures = c.failures,
    state = CASE WHEN c.failures >= ${limits.tokenFailures} AND s.state = 'active' THEN 'paused' ELSE s.state END,
    revision = s.revision + CASE WHEN c.failures >= ${limits.tokenFailures} AND s.state = 'active' THEN 1 ELSE 0 END,
    paused_reason = CASE WHEN c.failures >= ${limits.tokenFailures} AND s.state = 'active'
      THEN '{"type":"token","message":"${tokenMessage}"}' ELSE s.paused_reason END
  FROM counted c WHERE s.id = c.id`

/** Tasks count in the order in which they ended. A task that was deleted counts as ended without a failure. */
const settle = query(
  Schema.Struct({ id: ScheduleId }),
  `WITH ended AS (
    SELECT r.schedule_id, r.scheduled_for, t.status, t.completed_at FROM schedule_runs r LEFT JOIN tasks t ON t.uuid = r.task_uuid
    WHERE r.watched AND (t.uuid IS NULL OR t.completed_at IS NOT NULL)
    LIMIT $2::int FOR NO KEY UPDATE OF r SKIP LOCKED
  ), settled AS (
    UPDATE schedule_runs r SET watched = false FROM ended e
    WHERE r.schedule_id = e.schedule_id AND r.scheduled_for = e.scheduled_for
  ), summed AS (
    SELECT schedule_id, count(*) FILTER (WHERE status = 'failed' AND rank <= coalesce(broken, rank))::int AS failed,
      bool_or(broken IS NOT NULL) AS is_broken
    FROM (
      SELECT *, min(rank) FILTER (WHERE status IS DISTINCT FROM 'failed') OVER (PARTITION BY schedule_id) AS broken
      FROM (
        SELECT *, row_number() OVER (PARTITION BY schedule_id ORDER BY completed_at DESC NULLS LAST) AS rank FROM ended
      ) AS ranked
    ) AS marked GROUP BY schedule_id
  ), counted AS (
    SELECT s.id, CASE WHEN m.is_broken THEN m.failed ELSE s.task_failures + m.failed END AS failures
    FROM summed m JOIN schedules s ON s.id = m.schedule_id ORDER BY s.id FOR NO KEY UPDATE OF s
  ), changed AS (
    UPDATE schedules s SET task_failures = c.failures,
      state = CASE WHEN c.failures >= s.pause_after_failures AND s.state = 'active' THEN 'paused' ELSE s.state END,
      revision = s.revision + CASE WHEN c.failures >= s.pause_after_failures AND s.state = 'active' THEN 1 ELSE 0 END,
      paused_reason = CASE WHEN c.failures >= s.pause_after_failures AND s.state = 'active'
        THEN json_build_object('type', 'failures', 'message',
          CASE c.failures WHEN 1 THEN 'Its last task failed' ELSE 'Its last ' || c.failures || ' tasks failed' END)::text
        ELSE s.paused_reason END
    FROM counted c WHERE s.id = c.id
    RETURNING s.id, s.state, c.failures, s.pause_after_failures
  )
  SELECT id FROM changed WHERE state = 'paused' AND failures >= pause_after_failures`
)

const deleteExpired = countQuery(
  `WITH ended AS (
    DELETE FROM schedules WHERE id = ANY (ARRAY(
      SELECT id FROM schedules WHERE ended_at <= ${moment("$1")} ORDER BY ended_at LIMIT $2::int FOR UPDATE SKIP LOCKED
    )) RETURNING 1
  ), old AS (
    DELETE FROM schedule_runs WHERE ctid = ANY (ARRAY(
      SELECT ctid FROM schedule_runs WHERE scheduled_for <= ${moment("$1")} AND try_at IS NULL
      LIMIT $2::int FOR UPDATE SKIP LOCKED
    )) RETURNING 1
  ) SELECT ((SELECT count(*) FROM ended) + (SELECT count(*) FROM old))::int AS count`
)

/** Deletes runs beyond the newest of each schedule. */
const deleteSurplus = countQuery(
  `WITH surplus AS (
    DELETE FROM schedule_runs WHERE ctid = ANY (ARRAY(
      SELECT r.ctid FROM (
        SELECT schedule_id FROM schedule_runs GROUP BY schedule_id HAVING count(*) > ${limits.runs}
      ) AS many CROSS JOIN LATERAL (
        SELECT ctid, try_at FROM schedule_runs WHERE schedule_id = many.schedule_id
        ORDER BY scheduled_for DESC OFFSET ${limits.runs}
      ) AS r WHERE r.try_at IS NULL LIMIT $1::int
    )) RETURNING 1
  ) SELECT count(*)::int AS count FROM surplus`
)

const { bool, float8, int4, text, uuid } = PgTypes.OID

const claimValues = (claims: ReadonlyArray<FiringClaim>) => {
  const floats = (of: (claim: FiringClaim) => number | null | undefined) =>
    array(claims.map((claim) => of(claim) ?? null), float8)
  return [
    array(claims.map(({ id }) => id), uuid),
    floats(({ due }) => due),
    floats(({ next }) => next),
    floats(({ nextDue }) => nextDue),
    floats(({ last }) => last),
    floats(({ run }) => run),
    floats(({ missed }) => missed?.from),
    array(claims.map(({ missed }) => missed?.count ?? 0), int4)
  ]
}

const attemptValues = (attempted: ReadonlyArray<Attempted>) => [
  array(attempted.map(({ scheduleId }) => scheduleId), uuid),
  array(attempted.map(({ scheduledFor }) => scheduledFor), float8),
  array(attempted.map(({ outcome }) => outcome), text),
  array(attempted.map(({ startedAt }) => startedAt), float8),
  array(attempted.map(({ taskId }) => taskId), uuid),
  array(attempted.map(({ error }) => error), text),
  array(attempted.map(({ tryAt }) => tryAt), float8),
  array(attempted.map(({ lacksToken }) => lacksToken), bool)
]

const pendingOf = (
  { attempt, error, isOverlapping, scheduledFor, ...row }: typeof PendingRow.Type
): PendingRun => ({ schedule: scheduleOf(row), scheduledFor, attempt, error, isOverlapping })

export const make = Effect.map(makeQueries, ({ count, execute, rows }) => ({
  due: (at, limit, from = ScanFloor.lowest) => rows(due, [at, limit, from]),
  claim: (claims, at, lease) =>
    Effect.map(
      rows(claim, [...claimValues(claims), at, plus(at, lease)]),
      (found) => found.map(pendingOf)
    ),
  takeOver: (at, lease, limit, from = ScanFloor.lowest) =>
    Effect.map(rows(takeOver, [at, plus(at, lease), limit, from]), (found) => found.map(pendingOf)),
  nextDue: (from = ScanFloor.lowest) => Effect.map(rows(nextDue, [from]), ([row]) => row?.at ?? undefined),
  record: (attempted) => execute(record, attemptValues(attempted)),
  settle: (at, limit) => Effect.map(rows(settle, [at, limit]), (found) => found.map(({ id }) => id)),
  deleteExpired: (before, limit) =>
    Effect.map(
      Effect.all([count(deleteExpired, [before, limit]), count(deleteSurplus, [limit])]),
      ([expired, surplus]) => expired + surplus
    )
} satisfies Partial<SchedulesStore["Service"]>))
