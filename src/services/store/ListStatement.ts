/**
 * A page of a user's tasks and their exact number, read by one statement from one snapshot. Count and offset read only the
 * index `tasks_list`, and with a filter by metadata each matching task once; rows are fetched only for the page.
 */
import { Schema } from "effect"
import { TaskSummary } from "../../domain/Task.ts"
import { ToolCall } from "../../domain/ToolCall.ts"
import { micros, query } from "./Queries.ts"
import type { TaskFilter } from "./TaskReads.ts"

/** The fields of a `TaskSummary`. */
export const SummaryFields = {
  ...TaskSummary.fields,
  pendingToolCalls: Schema.NullOr(Schema.fromJsonString(Schema.Array(ToolCall)))
}

/** The columns of a `TaskSummary`. */
export const summaryColumns = `uuid, sub, status, error, ${micros("created_at")} AS "createdAt",
  ${micros("completed_at")} AS "completedAt", pending_tool_calls AS "pendingToolCalls"`

const total = Schema.Finite

/** On an empty page the only row has the total and no task. */
const ListRow = Schema.Union([Schema.Struct({ ...SummaryFields, total }), Schema.Struct({ uuid: Schema.Null, total })])

/**
 * Selects from `tasks`, or from `matching`, which is read once. Each filter is a statement of its own, because an `IS NULL OR`
 * condition would force one plan for both cases.
 */
const statement = (from: "tasks" | "matching", which: string, matching = "") =>
  query(
    ListRow,
    `${matching} SELECT total, page.* FROM (SELECT count(*)::float8 AS total FROM ${from} WHERE ${which}) AS counted
    LEFT JOIN (
      SELECT ${summaryColumns} FROM tasks WHERE uuid = ANY (ARRAY(
        SELECT uuid FROM ${from} WHERE ${which} ORDER BY created_at DESC, uuid DESC LIMIT $2::int OFFSET $3::bigint
      ))
    ) AS page ON true
    ORDER BY page."createdAt" DESC, page.uuid DESC`
  )

/** The array makes the planner start with the index of the metadata, whatever it expects to find there. */
const matching = `WITH matching AS MATERIALIZED (
  SELECT uuid, created_at, status FROM tasks
  WHERE uuid = ANY (ARRAY(SELECT task_uuid FROM task_metadata WHERE by_user @> $1::jsonb))
)`

const hasStatus = "status = ANY ($4::text[])"

export const listAll = statement("tasks", "sub = $1")
export const listByStatus = statement("tasks", `sub = $1 AND ${hasStatus}`)
export const listByMetadata = statement("matching", "true", matching)
export const listByBoth = statement("matching", hasStatus, matching)

export const of = ({ metadata, statuses }: TaskFilter) =>
  metadata
    ? statuses.length === 0 ? listByMetadata : listByBoth
    : statuses.length === 0
    ? listAll
    : listByStatus

/** The values of the statement: user or metadata, page size, offset, and the statuses if there are any. */
export const bind = ({ metadata, page, perPage, statuses, sub }: TaskFilter) => [
  metadata ? JSON.stringify({ [sub]: metadata }) : sub,
  perPage,
  String((page - 1) * perPage),
  ...(statuses.length === 0 ? [] : [`{${statuses.join(",")}}`])
]
