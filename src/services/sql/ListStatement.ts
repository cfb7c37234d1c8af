/**
 * A page of a user's tasks and their exact number, in one statement and so of one moment. Count and offset read the index
 * `tasks_list` alone; rows are fetched only for the page.
 */
import { micros } from "./CommitStatement.ts"

/** The columns of a `TaskSummary`. */
export const summaryColumns = `uuid, sub, status, error, ${micros("created_at")} AS created_at,
  ${micros("completed_at")} AS completed_at, pending_tool_calls`

/**
 * Binds user, page size and offset. One row at least: without a task on the page its columns are null.
 * The filter is a text of its own, not an `IS NULL OR`: the plan for any value would have to reckon with both.
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

/** Binds an array of statuses too. */
export const listByStatus = statement("sub = $1 AND status = ANY ($4::text[])")
