/** Rows of schedules, and their reads in Postgres. */
import { PgTypes } from "@effect/sql-pg"
import { Effect, Option, Schema } from "effect"
import { TaskId } from "../../domain/Task.ts"
import { Timestamp } from "../../domain/Timestamp.ts"
import { array, countQuery, make as makeQueries, micros, moment, query } from "../store/sql/Queries.ts"
import { Definition, limits, PausedReason, Run, type Schedule, ScheduleId, State } from "./Schedule.ts"
import { ScheduledTask, type SchedulesStore } from "./SchedulesStore.ts"

export const ScheduleRow = Schema.Struct({
  id: ScheduleId,
  sub: Schema.String,
  key: Schema.NullOr(Schema.String),
  definition: Schema.fromJsonString(Definition),
  task: Schema.String,
  callbackSecret: Schema.NullOr(Schema.String),
  state: State,
  pausedReason: Schema.NullOr(Schema.fromJsonString(PausedReason)),
  nextAt: Schema.NullOr(Timestamp),
  lastAt: Schema.NullOr(Timestamp),
  revision: Schema.Int,
  version: Schema.Int,
  tokenId: Schema.String,
  tokenIssuedAt: Schema.NullOr(Schema.Finite),
  authorizedAt: Timestamp,
  userToken: Schema.NullOr(Schema.String),
  taskFailures: Schema.Int,
  tokenFailures: Schema.Int,
  createdAt: Timestamp,
  endedAt: Schema.NullOr(Timestamp)
})
export const columns = `s.id, s.sub, s.key, s.definition, s.task, s.callback_secret AS "callbackSecret", s.state,
  s.paused_reason AS "pausedReason", ${micros("s.next_at")} AS "nextAt", ${micros("s.last_at")} AS "lastAt", s.revision,
  s.version, s.token_id AS "tokenId", extract(epoch FROM s.token_issued_at)::float8 AS "tokenIssuedAt",
  ${micros("s.authorized_at")} AS "authorizedAt", s.user_token AS "userToken", s.task_failures AS "taskFailures",
  s.token_failures AS "tokenFailures", ${micros("s.created_at")} AS "createdAt", ${micros("s.ended_at")} AS "endedAt"`
export const scheduleOf = (
  { authorizedAt, tokenId, tokenIssuedAt, userToken, ...row }: typeof ScheduleRow.Type
): Schedule => ({
  ...row,
  authorization: { tokenId, issuedAt: tokenIssuedAt, at: authorizedAt, token: userToken }
})

const byId = query(ScheduleRow, `SELECT ${columns} FROM schedules s WHERE id = $1::uuid`)
const byKey = query(ScheduleRow, `SELECT ${columns} FROM schedules s WHERE sub = $1 AND key = $2`)

const stateFilter = `($2::text[] = '{}' OR state = ANY ($2::text[]))`
const list = query(
  ScheduleRow,
  `SELECT ${columns} FROM schedules s WHERE sub = $1 AND ${stateFilter}
  ORDER BY created_at DESC, id DESC LIMIT $3::int OFFSET $4::bigint`
)
const countAll = countQuery(`SELECT count(*)::int AS count FROM schedules WHERE sub = $1 AND ${stateFilter}`)

const runs = query(
  Run,
  `SELECT ${micros("scheduled_for")} AS "scheduledFor", ${micros("started_at")} AS "startedAt", outcome, count,
    task_uuid AS "taskId", error
  FROM (SELECT * FROM schedule_runs WHERE schedule_id = $1::uuid ORDER BY scheduled_for DESC LIMIT ${limits.runs}) AS kept
  ORDER BY scheduled_for DESC LIMIT $2::int OFFSET $3::bigint`
)
const countRuns = countQuery(
  `SELECT least(count(*), ${limits.runs})::int AS count FROM schedule_runs WHERE schedule_id = $1::uuid`
)

/** A task is recorded once, whatever moment its repeated request has. */
const addTriggered = `INSERT INTO schedule_runs (schedule_id, scheduled_for, outcome, started_at, task_uuid, triggered)
  SELECT $1::uuid, coalesce((
    SELECT max(scheduled_for) + interval '1 microsecond' FROM schedule_runs
    WHERE schedule_id = $1::uuid AND scheduled_for BETWEEN ${moment("$2")} AND ${moment("$2")} + interval '1 ms'
  ), ${moment("$2")}), 'created', ${moment("$2")}, $3::uuid, true
  FROM schedules WHERE id = $1::uuid AND NOT EXISTS (SELECT FROM schedule_runs WHERE task_uuid = $3::uuid)
  ON CONFLICT DO NOTHING`

const tasksOf = query(
  Schema.Struct({ taskId: TaskId }),
  `SELECT task_uuid AS "taskId" FROM schedule_runs JOIN schedules ON id = schedule_id
  WHERE schedule_id = $2::uuid AND sub = coalesce($1::text, sub) AND task_uuid IS NOT NULL ORDER BY scheduled_for DESC LIMIT ${limits.runs}`
)

const ofTasks = query(
  ScheduledTask,
  `SELECT task_uuid AS "taskId", schedule_id AS "scheduleId", ${micros("scheduled_for")} AS "scheduledFor"
  FROM schedule_runs WHERE task_uuid = ANY ($1::uuid[])`
)

const { text, uuid } = PgTypes.OID

export const make = Effect.map(makeQueries, ({ count, execute, first, rows }) => {
  const found = Effect.map((row: Option.Option<typeof ScheduleRow.Type>) =>
    Option.getOrUndefined(Option.map(row, scheduleOf))
  )
  return {
    get: (id) => found(first(byId, [id])),
    byKey: (sub, key) => found(first(byKey, [sub, key])),
    list: (sub, states, page, perPage) => {
      const filter = [sub, array(states, text)]
      return Effect.map(
        Effect.all([
          rows(list, [...filter, perPage, String((page - 1) * perPage)]),
          count(countAll, filter)
        ]),
        ([schedules, total]) => ({ schedules: schedules.map(scheduleOf), total })
      )
    },
    runs: (id, page, perPage) =>
      Effect.map(
        Effect.all([rows(runs, [id, perPage, String((page - 1) * perPage)]), count(countRuns, [id])]),
        ([runs, total]) => ({ runs, total })
      ),
    addTriggered: (id, at, taskId) => execute(addTriggered, [id, at, taskId]),
    tasksOf: (sub, id) => Effect.map(rows(tasksOf, [sub, id]), (found) => found.map(({ taskId }) => taskId)),
    ofTasks: (taskIds) => rows(ofTasks, [array(taskIds, uuid)])
  } satisfies Partial<SchedulesStore["Service"]>
})
