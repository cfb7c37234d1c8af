/** Parts of the statements that read tasks. */
import { activeStatuses } from "../../domain/Task.ts"
import * as TaskShard from "../../domain/TaskShard.ts"
import { micros } from "./Queries.ts"

/** The columns of a `TaskHead`. */
export const headColumnsOf = (row: string) =>
  `${row}.uuid, ${row}.sub, ${row}.status, ${row}.revision, ${row}.run_id AS "runId",
  ${row}.max_execution_time AS "maxExecutionTime", ${micros(`${row}.deadline_at`)} AS deadline,
  ${micros(`${row}.acceptance_deadline_at`)} AS "acceptanceDeadline"`
export const headColumns = headColumnsOf("tasks")

export const isLive = `status IN (${activeStatuses.map((status) => `'${status}'`).join(", ")})`

/** `TaskShard.of` in SQL. */
export const shardOf = (uuid: string) => `(('x' || right(${uuid}::text, 4))::bit(16)::int % ${TaskShard.count})`
