/** Searches of operators: schedules of all users, and moments that were late or missed. Each is one statement of a bounded page. */
import { PgTypes } from "@effect/sql-pg"
import { Effect, Schema } from "effect"
import { TaskStatus } from "../../domain/Task.ts"
import { Timestamp } from "../../domain/Timestamp.ts"
import { array, make as makeQueries, micros, moment, query } from "../store/sql/Queries.ts"
import { PausedReason, Run, ScheduleId, State } from "./Schedule.ts"
import { lateSeconds } from "./ScheduleTables.ts"

/** Rows of a page. */
export const listed = 100

/** Milliseconds: a moment that is due for longer is late. */
const tolerance = 5000

export const Problem = Schema.Literals(["late", "waiting", "missed", "failed"])
export type Problem = typeof Problem.Type

const Outcome = Schema.Struct({ at: Timestamp, outcome: Schema.Union([TaskStatus, Run.fields.outcome]) })

const owner = {
  scheduleId: ScheduleId,
  sub: Schema.String,
  key: Schema.NullOr(Schema.String),
  name: Schema.NullOr(Schema.String)
}

/** `taskStatus` is null without a task, and for one that is deleted. */
const FoundRun = Schema.Struct({ ...owner, ...Run.fields, taskStatus: Schema.NullOr(TaskStatus) })
export interface FoundRun extends Schema.Schema.Type<typeof FoundRun> {}

const FoundSchedule = Schema.Struct({
  ...owner,
  state: State,
  pausedReason: Schema.NullOr(Schema.fromJsonString(PausedReason)),
  cron: Schema.NullOr(Schema.String),
  timezone: Schema.String,
  nextAt: Schema.NullOr(Timestamp),
  lastAt: Schema.NullOr(Timestamp),
  createdAt: Timestamp,
  outcomes: Schema.fromJsonString(Schema.Array(Outcome))
})
export interface FoundSchedule extends Schema.Schema.Type<typeof FoundSchedule> {}

/** The newest moments of a schedule that are shown. */
export const shownOutcomes = 30

/** A moment: the status of its task, or what became of the moment without one. */
const outcomes = `(SELECT coalesce(json_agg(r ORDER BY at DESC), '[]')::text FROM (
    SELECT (extract(epoch FROM m.scheduled_for) * 1000000)::float8 AS at, coalesce(t.status, m.outcome) AS outcome
    FROM schedule_runs m LEFT JOIN tasks t ON t.uuid = m.task_uuid
    WHERE m.schedule_id = s.id ORDER BY m.scheduled_for DESC LIMIT ${shownOutcomes}) AS r)`

const ownerColumns = `s.id AS "scheduleId", s.sub, s.key, s.definition::json ->> 'name' AS name`

/** The text is an id, or the beginning of a user, a key or a name. */
const matches =
  `($1::text IS NULL OR s.id::text = lower($1::text) OR starts_with(s.sub, $1::text) OR starts_with(s.key, $1::text)
  OR starts_with(lower(s.definition::json ->> 'name'), lower($1::text)))`

/** Ids are ordered by the creation of their schedule. */
const schedules = query(
  FoundSchedule,
  `SELECT ${ownerColumns}, s.state, s.paused_reason AS "pausedReason", s.definition::json ->> 'cron' AS cron,
    s.definition::json ->> 'timezone' AS timezone, ${micros("s.next_at")} AS "nextAt", ${
    micros("s.last_at")
  } AS "lastAt",
    ${micros("s.created_at")} AS "createdAt", ${outcomes} AS outcomes
  FROM schedules s WHERE ($2::text IS NULL OR s.state = $2::text) AND ${matches} ORDER BY s.id DESC LIMIT $3::int`
)

const runs = query(
  FoundRun,
  `SELECT ${ownerColumns}, ${micros("r.scheduled_for")} AS "scheduledFor", ${
    micros("r.started_at")
  } AS "startedAt", r.outcome,
    r.count, r.task_uuid AS "taskId", r.error, t.status AS "taskStatus"
  FROM schedule_runs r JOIN schedules s ON s.id = r.schedule_id LEFT JOIN tasks t ON t.uuid = r.task_uuid
  WHERE (r.outcome IN ('waiting', 'missed', 'failed') OR r.started_at - r.scheduled_for > interval '${lateSeconds} seconds')
    AND NOT r.triggered AND r.scheduled_for >= ${moment("$4")} AND CASE
      WHEN r.outcome = 'created' THEN 'late' = ANY ($2::text[]) AND r.started_at - r.scheduled_for
        > interval '1 second' * (${lateSeconds} + (s.definition::json ->> 'spread')::int)
      ELSE r.outcome = ANY ($2::text[]) END
    AND ${matches}
  ORDER BY r.scheduled_for DESC LIMIT $3::int`
)

const Present = Schema.Struct({
  late: Schema.Int,
  waiting: Schema.Int,
  /** Milliseconds. */
  oldest: Schema.NullOr(Schema.Finite)
})
export interface Present extends Schema.Schema.Type<typeof Present> {}

/** Moments that should have been worked off by now, up to a thousand of each kind. */
const present = query(
  Present,
  `SELECT d.late, w.waiting, (extract(epoch FROM ${moment("$1")} - d.oldest) * 1000)::float8 AS oldest
  FROM (SELECT count(*)::int AS late, min(due_at) AS oldest FROM (
    SELECT due_at FROM schedules WHERE state = 'active' AND due_at <= ${moment("$1")} - interval '${tolerance} ms'
    ORDER BY due_at LIMIT 1000
  ) AS due) AS d, (SELECT count(*)::int AS waiting FROM (
    SELECT FROM schedule_runs WHERE try_at IS NOT NULL LIMIT 1000
  ) AS open) AS w`
)

export const make = Effect.map(makeQueries, ({ rows }) => ({
  /** The newest schedules, one more than a page. */
  schedules: (search: string | null, state: State | null) => rows(schedules, [search, state, listed + 1]),
  /** The newest problems since a moment, one more than a page. */
  runs: (search: string | null, problems: ReadonlyArray<Problem>, since: Timestamp) =>
    rows(runs, [search, array(problems, PgTypes.OID.text), listed + 1, since]),
  present: (at: Timestamp) =>
    Effect.map(rows(present, [at]), ([found]) => found ?? { late: 0, waiting: 0, oldest: null })
}))
