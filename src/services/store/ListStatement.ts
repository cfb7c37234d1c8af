/**
 * A page of a user's tasks and their exact number, read by one statement from one snapshot. Count and offset
 * read only the index `tasks_list`; rows are fetched only for the page.
 */
import { Schema } from "effect"
import { TaskId, TaskStatus } from "../../domain/Task.ts"
import { Timestamp } from "../../domain/Timestamp.ts"
import { ToolCall } from "../../domain/ToolCall.ts"
import { micros, query } from "./Queries.ts"

/** The fields of a `TaskSummary`. */
export const SummaryFields = {
  uuid: TaskId,
  sub: Schema.String,
  status: TaskStatus,
  error: Schema.NullOr(Schema.String),
  createdAt: Timestamp,
  completedAt: Schema.NullOr(Timestamp),
  pendingToolCalls: Schema.NullOr(Schema.fromJsonString(Schema.Array(ToolCall)))
}

/** The columns of a `TaskSummary`. */
export const summaryColumns = `uuid, sub, status, error, ${micros("created_at")} AS "createdAt",
  ${micros("completed_at")} AS "completedAt", pending_tool_calls AS "pendingToolCalls"`

const total = Schema.Finite

/** On an empty page the only row has the total and no task. */
const ListRow = Schema.Union([Schema.Struct({ ...SummaryFields, total }), Schema.Struct({ uuid: Schema.Null, total })])

/**
 * Binds user, page size and offset. Each filter is a statement of its own, because an `IS NULL OR` condition would force
 * one plan for both cases.
 */
const statement = (which: string) =>
  query(
    ListRow,
    `SELECT total, page.* FROM (SELECT count(*)::float8 AS total FROM tasks WHERE ${which}) AS counted
    LEFT JOIN (
      SELECT ${summaryColumns} FROM tasks WHERE uuid = ANY (ARRAY(
        SELECT uuid FROM tasks WHERE ${which} ORDER BY created_at DESC, uuid DESC LIMIT $2::int OFFSET $3::bigint
      ))
    ) AS page ON true
    ORDER BY page."createdAt" DESC, page.uuid DESC`
  )

export const listAll = statement("sub = $1")

/** Also binds an array of statuses. */
export const listByStatus = statement("sub = $1 AND status = ANY ($4::text[])")
