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

/** Who has to act next, and when the task fails unless they do; null when the task has ended. */
export const WaitingOnView = Schema.Struct({
  party: Schema.Literals(["core", "client"]),
  for: Schema.Literals(["acceptance", "result", "tool_results"]),
  until: Schema.String
}).annotate({ identifier: "WaitingOn" })

export const TaskView = Schema.Struct({
  ...summary,
  turn: Schema.NullOr(JsonObject),
  waiting_on: Schema.optionalKey(Schema.NullOr(WaitingOnView))
}).annotate({ identifier: "Task" })

/** `data` of one server-sent event; its `id` is the revision, its `event` the status, or `progress`. */
export const TaskEventView = Schema.Struct({
  uuid: Schema.String,
  revision: Schema.Int,
  status: TaskStatus,
  occurred_at: Schema.String
}).annotate({ identifier: "TaskEvent" })

/** One webhook delivery with its attempts. */
export const DeliveryView = Schema.Struct({
  id: Schema.String,
  status: TaskStatus,
  state: Schema.Literals(["pending", "delivered", "failed"]),
  created_at: Schema.String,
  next_attempt_at: Schema.NullOr(Schema.String),
  attempts: Schema.Array(Schema.Struct({
    number: Schema.Int,
    started_at: Schema.String,
    duration_ms: Schema.NullOr(Schema.Int),
    response_status: Schema.NullOr(Schema.Int),
    error: Schema.NullOr(Schema.String)
  }))
}).annotate({ identifier: "Delivery" })

export const DeliveriesView = Schema.Struct({ data: Schema.Array(DeliveryView) }).annotate({ identifier: "Deliveries" })

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
