/**
 * A page of a user's tasks and their exact number, read by one statement from one snapshot. Count and offset
 * read only the index `tasks_list`; rows are fetched only for the page.
 */
import { micros } from "./TaskColumns.ts"

/** The columns of a `TaskSummary`. */
export const summaryColumns = `uuid, sub, status, error, ${micros("created_at")} AS created_at,
  ${micros("completed_at")} AS completed_at, pending_tool_calls`

/**
 * Binds user, page size and offset. It returns at least one row; on an empty page the task's columns are null.
 * Each filter is a statement of its own, because an `IS NULL OR` condition would force one plan for both cases.
 */
const statement = (which: string) =>
  `SELECT total, page.* FROM (SELECT count(*)::float8 AS total FROM tasks WHERE ${which}) AS counted
  LEFT JOIN (
    SELECT ${summaryColumns} FROM tasks WHERE uuid = ANY (ARRAY(
      SELECT uuid FROM tasks WHERE ${which} ORDER BY created_at DESC, uuid DESC LIMIT $2::int OFFSET $3::bigint
    ))
  ) AS page ON true
  ORDER BY page.created_at DESC, page.uuid DESC`

export const listAll = statement("sub = $1")

/** Also binds an array of statuses. */
export const listByStatus = statement("sub = $1 AND status = ANY ($4::text[])")
