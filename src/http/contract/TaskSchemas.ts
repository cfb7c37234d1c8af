/** Public shapes of tasks (SPEC "Resources and their fields", CONTRACT 2). */
import { Schema } from "effect"
import * as Limits from "../../domain/Limits.ts"
import { JsonObject } from "../../domain/OpaqueJson.ts"
import { TaskStatus } from "../../domain/Task.ts"
import { isAtMostCharacters } from "../../domain/TaskRequest.ts"
import { ToolCall, ToolResult } from "../../domain/ToolCall.ts"

const summary = {
  uuid: Schema.String,
  status: TaskStatus,
  error: Schema.NullOr(Schema.String),
  created_at: Schema.String,
  completed_at: Schema.NullOr(Schema.String),
  pending_tool_calls: Schema.optionalKey(Schema.Array(ToolCall))
}

export const TaskSummaryView = Schema.Struct(summary).annotate({ identifier: "TaskSummary" })

export const TaskView = Schema.Struct({ ...summary, turn: Schema.NullOr(JsonObject) }).annotate({ identifier: "Task" })

export const TaskPageView = Schema.Struct({
  data: Schema.Array(TaskSummaryView),
  meta: Schema.Struct({
    current_page: Schema.Int,
    per_page: Schema.Int,
    last_page: Schema.Int,
    total: Schema.Int
  })
}).annotate({ identifier: "TaskPage" })

export const CreatedTaskView = Schema.Struct({
  uuid: Schema.String,
  status: Schema.Literal("pending"),
  max_execution_time: Schema.Int
}).annotate({ identifier: "CreatedTask" })

export const ToolResultsBody = Schema.Struct({
  results: Schema.Array(ToolResult)
}).annotate({ identifier: "ToolResults" })

export const CancelBody = Schema.Struct({
  reason: Schema.optional(
    Schema.NullOr(
      Schema.String.check(isAtMostCharacters(Limits.cancelReasonLength))
    )
  )
}).annotate({ identifier: "CancelTask" })

export const ResumedTaskView = Schema.Struct({ uuid: Schema.String, status: Schema.Literal("processing") })

export const CanceledTaskView = Schema.Struct({ uuid: Schema.String, status: Schema.Literal("canceled") })

export const CanceledTasksView = Schema.Struct({ canceled: Schema.Int, uuids: Schema.Array(Schema.String) })

/** Answer to a core event (CONTRACT 4): whether it changed the task, and where the task stands. */
export const ReportedView = Schema.Struct({ status: TaskStatus, applied: Schema.Boolean })
