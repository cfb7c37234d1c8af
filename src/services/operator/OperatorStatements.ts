/** The statements of operators, except those that select by a filter (`SelectionStatements`). */
import { Schema, Struct } from "effect"
import { TaskHead } from "../../domain/Task.ts"
import { Timestamp } from "../../domain/Timestamp.ts"
import {
  columns as revocationColumns,
  fields as revocationFields
} from "../store/revocations/RevocationRepositorySql.ts"
import { micros, moment, type Query, query } from "../store/sql/Queries.ts"
import { columnsOf, headColumns, isDispatched, isLive } from "../store/tasks/TaskColumns.ts"
import { attemptError, deliveries } from "../store/webhooks/WebhookStatements.ts"
import {
  DueClock,
  DueStop,
  Durations,
  errorLength,
  Failure,
  FoundTask,
  OriginStats,
  StuckRun,
  type TaskDetail
} from "./OperatorStore.ts"

/** Bytes of tool calls above which their names are not read, and characters that are read of shorter ones. */
const readToolCalls = { longest: 64 * 1024, begin: 16 * 1024 }

const shortError = `left(error, ${errorLength})`

/** Binds the lowest and the highest id, a pattern of ids, and the number of rows. */
export const tasksLike = query(
  Schema.Struct({ id: Schema.String }),
  `SELECT uuid::text AS id FROM tasks WHERE uuid BETWEEN $1::uuid AND $2::uuid AND uuid::text LIKE $3::text
  ORDER BY uuid DESC LIMIT $4::int`
)

/** The columns of a `TaskHead` and a `FoundTask`, whose fields decide what is read. */
const foundColumns = `${
  columnsOf(Struct.keys({ ...TaskHead.fields, ...Struct.omit(FoundTask.fields, ["error", "pendingTools"]) }))
}, ${shortError} AS error,
  CASE WHEN octet_length(pending_tool_calls) <= ${readToolCalls.longest} THEN left(pending_tool_calls, ${readToolCalls.begin}) END
    AS "pendingTools"`

export const tasksById = query(
  FoundTask,
  `SELECT ${foundColumns} FROM tasks WHERE uuid = ANY($1::uuid[])`
)

const Bytes = Schema.NullOr(Schema.Int)
const detailRows = query(
  Schema.Struct({ ...FoundTask.fields, ...TaskHead.fields, requestBytes: Bytes, turnBytes: Bytes }),
  `SELECT ${foundColumns},
    (SELECT octet_length(request) FROM task_requests WHERE task_uuid = uuid) AS "requestBytes",
    (SELECT octet_length(turn) FROM task_turns WHERE task_uuid = uuid) AS "turnBytes"
  FROM tasks WHERE uuid = $1`
)
export const taskDetail: Query<TaskDetail> = {
  ...detailRows,
  decode: (rows) =>
    detailRows.decode(rows).map(({ requestBytes, turnBytes, ...row }) => ({
      found: row,
      head: row,
      requestBytes,
      turnBytes
    }))
}

export const failures = query(
  Failure,
  `SELECT uuid, sub, assistant_id::float8 AS "assistantId", coalesce(${shortError}, '') AS error, ${
    micros("completed_at")
  } AS at FROM tasks
  WHERE status = 'failed' AND completed_at >= ${moment("$1")} AND completed_at < ${moment("$2")}
  ORDER BY completed_at DESC, uuid DESC LIMIT $3::int`
)

const percentiles = (name: string, milliseconds: string) =>
  [50, 95].map((part) =>
    `percentile_cont(${part / 100}) WITHIN GROUP (ORDER BY ${milliseconds})::float8 AS "${name}P${part}"`
  ).join(", ")

const millisBetween = (from: string, to: string) => `greatest(0, extract(epoch FROM ${to} - ${from}) * 1000)`

/** Revision 1 is the first change after the creation. Binds from, to, tasks examined and assistants returned. */
export const durations = query(
  Durations,
  `WITH newest AS MATERIALIZED (
    SELECT uuid, assistant_id, status, created_at, completed_at FROM tasks
    WHERE created_at >= ${moment("$1")} AND created_at < ${moment("$2")}
    ORDER BY created_at DESC, uuid DESC LIMIT $3::int
  )
  SELECT assistant_id::float8 AS "assistantId", count(*)::int AS tasks,
    ${percentiles("waiting", millisBetween("created_at", "begun"))},
    ${percentiles("running", millisBetween("begun", "completed_at"))},
    (SELECT count(*) FROM newest)::int AS examined
  FROM (
    SELECT newest.*, occurred_at AS begun FROM newest
    JOIN task_events ON task_uuid = newest.uuid AND task_events.revision = 1
    WHERE newest.status IN ('completed', 'failed')
  ) AS ended GROUP BY assistant_id ORDER BY tasks DESC, assistant_id LIMIT $4::int`
)

/** A run that was dispatched again has been silent since before. Binds tasks examined, moment and rows. */
export const stuck = query(
  Schema.Struct({ ...StuckRun.fields, total: Schema.Int, examined: Schema.Int }),
  `WITH live AS MATERIALIZED (
    SELECT uuid, coalesce(last_event_at, created_at) AS at FROM tasks WHERE ${isDispatched}
    ORDER BY uuid LIMIT $1::int
  )
  SELECT ${headColumns}, ${columnsOf(["createdAt"])}, ${micros("found.at")} AS "progressAt", total, examined FROM (
    SELECT *, count(*) OVER ()::int AS total, (SELECT count(*) FROM live)::int AS examined
    FROM live WHERE at < ${moment("$2")} ORDER BY at, uuid LIMIT $3::int
  ) AS found JOIN tasks ON tasks.uuid = found.uuid ORDER BY found.at, found.uuid`
)

const clock = (name: string, column: string, which: string) =>
  `(SELECT uuid, sub, status, '${name}' AS clock, ${micros(column)} AS "dueAt" FROM tasks
    WHERE ${which} AND ${column} IS NOT NULL ORDER BY ${column} LIMIT $1::int)`

export const clocks = query(
  DueClock,
  `SELECT * FROM (
    ${clock("acceptance", "acceptance_deadline_at", "status = 'pending'")}
    UNION ALL ${clock("time_limit", "deadline_at", isLive)}
  ) AS clocks ORDER BY "dueAt", uuid LIMIT $1::int`
)

export const stops = query(
  DueStop,
  `SELECT run_id AS "runId", task_uuid AS "taskId", reason, attempts, ${micros("due_at")} AS "dueAt"
  FROM core_stops ORDER BY due_at LIMIT $1::int`
)

const isFailed = "d.due_at IS NULL AND d.delivered_at IS NULL"

const lastError = `(
  SELECT ${attemptError} FROM webhook_attempts a
  WHERE a.task_uuid = d.task_uuid AND a.revision = d.revision ORDER BY a.number DESC LIMIT 1)`

/** Binds from, to, rows examined, and origins returned. */
export const origins = query(
  Schema.Struct({ ...OriginStats.fields, examined: Schema.Int }),
  `WITH failed AS (
    SELECT d.* FROM webhook_deliveries d WHERE ${isFailed}
      AND d.created_at >= ${moment("$1")} AND d.created_at < ${moment("$2")} ORDER BY d.created_at DESC LIMIT $3::int
  ), pending AS (
    (SELECT origin FROM webhook_deliveries WHERE due_at IS NOT NULL AND attempts < attempts_allowed LIMIT $3::int)
    UNION ALL
    (SELECT origin FROM webhook_deliveries WHERE due_at IS NOT NULL AND attempts >= attempts_allowed LIMIT $3::int)
  ), counted AS (
    SELECT origin, sum(pending)::int AS pending, sum(failed)::int AS failed, min(at) AS oldest, max(at) AS newest FROM (
      SELECT origin, 0 AS pending, 1 AS failed, created_at AS at FROM failed
      UNION ALL SELECT origin, 1, 0, NULL FROM pending
    ) AS every GROUP BY origin ORDER BY failed DESC, pending DESC, origin LIMIT $4::int
  )
  SELECT origin, pending, failed, ${micros("oldest")} AS "oldestFailedAt",
    (SELECT ${lastError} FROM failed d WHERE d.origin = counted.origin AND d.created_at = counted.newest LIMIT 1) AS "lastError",
    greatest((SELECT count(*) FROM failed), (SELECT count(*) FROM pending))::int AS examined
  FROM counted ORDER BY failed DESC, pending DESC, origin`
)

export const deliveriesById = deliveries(
  `JOIN unnest($1::uuid[], $2::int[]) AS wanted (task_uuid, revision) USING (task_uuid, revision)`
)

/** Binds moment and id of the row before, both null for the first page, and the number of rows. */
export const revocations = query(
  Schema.Struct({ ...revocationFields, at: Timestamp, id: Schema.String }),
  `SELECT ${revocationColumns}, ${micros("revoked_at")} AS at, id FROM token_revocations,
    LATERAL (SELECT CASE WHEN sub IS NULL THEN 'token ' || token_id ELSE 'user ' || sub END AS id) AS key
  WHERE revoked_at <= coalesce(${moment("$1")}, 'infinity')
    AND ($1::float8 IS NULL OR (revoked_at, id) < (${moment("$1")}, $2::text))
  ORDER BY revoked_at DESC, id DESC LIMIT $3::int`
)
