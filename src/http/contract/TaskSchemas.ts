/** Public shapes of tasks (SPEC "Resources and their fields", CONTRACT 2). */
import { Schema } from "effect"
import * as Limits from "../../domain/Limits.ts"
import { JsonObject } from "../../domain/OpaqueJson.ts"
import { TaskStatus } from "../../domain/Task.ts"
import { isAtMostCharacters } from "../../domain/TaskRequest.ts"
import { ToolCall, ToolResult } from "../../domain/ToolCall.ts"
import { AttemptError, DeliveryState } from "../../domain/Webhook.ts"

const Uuid = Schema.String.annotate({ description: "Task identifier.", format: "uuid" })

const Status = TaskStatus.annotate({ identifier: "TaskStatus", description: "Where a task stands." })

const Moment = Schema.String.annotate({
  identifier: "Timestamp",
  description: "ISO 8601 in UTC with exactly six fractional digits, as in `2026-11-21T08:30:00.123456Z`.",
  format: "date-time"
})

const Count = Schema.Int.check(Schema.isGreaterThanOrEqualTo(0))

const summary = {
  uuid: Uuid,
  status: Status,
  error: Schema.NullOr(Schema.String).annotate({
    description: "Human-readable reason when failed; when canceled, the `reason` that the client gave."
  }),
  created_at: Moment,
  completed_at: Schema.NullOr(Moment).annotate({ description: "Moment of the transition to a terminal status." }),
  pending_tool_calls: Schema.optionalKey(Schema.Array(ToolCall)).annotate({
    description: "Present only while the status is interrupted: the client tool calls that await an answer."
  })
}

export const TaskSummaryView = Schema.Struct(summary).annotate({
  identifier: "TaskSummary",
  description: "One row of the task list; it never has a `turn`."
})

export const WaitingOnView = Schema.Struct({
  party: Schema.Literals(["core", "client"]).annotate({ description: "Who has to act." }),
  for: Schema.Literals(["acceptance", "result", "tool_results"]).annotate({ description: "What they have to bring." }),
  until: Moment.annotate({ description: "When the task fails unless they do." })
}).annotate({ identifier: "WaitingOn", description: "Who has to act next on a task." })

export const TaskView = Schema.Struct({
  ...summary,
  turn: Schema.NullOr(JsonObject.annotate({ identifier: "Turn" })).annotate({
    description: "The result, once completed. Before that, and in a task that failed, it may hold partial output."
  }),
  waiting_on: Schema.optionalKey(Schema.NullOr(WaitingOnView)).annotate({
    description: "Present only when `?include=waiting_on` asks for it; null when the task has ended."
  })
}).annotate({ identifier: "Task", description: "A task. A webhook carries the same object." })

export const TaskEventView = Schema.Struct({
  uuid: Uuid,
  revision: Count.annotate({ description: "Counts the changes of the task; 0 is its creation." }),
  status: Status,
  occurred_at: Moment
}).annotate({
  identifier: "TaskEvent",
  description: "The `data` of one server-sent event. Its `id` is the revision, its `event` the status or `progress`."
})

/** A `TaskEvent` with its name, where the protocol has no other place for it. */
export const WatchedEventView = Schema.Struct({
  ...TaskEventView.fields,
  event: Schema.Literals([...TaskStatus.literals, "progress"])
})

const DeliveryAttempt = Schema.Struct({
  number: Count.annotate({ description: "From 1." }),
  started_at: Moment,
  duration_ms: Schema.NullOr(Count).annotate({ description: "Milliseconds; null while it is under way, or lost." }),
  response_status: Schema.NullOr(Count).annotate({ description: "HTTP status of the answer; null without one." }),
  error: Schema.NullOr(AttemptError).annotate({ description: "The class of what went wrong; null when nothing did." })
}).annotate({ identifier: "DeliveryAttempt", description: "One POST to the callback URL." })

export const DeliveryView = Schema.Struct({
  id: Schema.String.annotate({ description: "Delivery identifier, sent as `webhook-id`." }),
  status: Status.annotate({ description: "The status that the webhook tells." }),
  state: DeliveryState.annotate({ description: "Where the delivery stands." }),
  created_at: Moment,
  next_attempt_at: Schema.NullOr(Moment).annotate({
    description: "Null when there is none to come, and while one is under way."
  }),
  attempts: Schema.Array(DeliveryAttempt).annotate({ description: "Oldest first." })
}).annotate({ identifier: "Delivery", description: "The webhook of one status, with its attempts." })

export const DeliveriesView = Schema.Struct({
  data: Schema.Array(DeliveryView).annotate({ description: "Oldest first." })
}).annotate({
  identifier: "Deliveries",
  description: "The webhooks of a task, oldest first."
})

export const TaskPageView = Schema.Struct({
  data: Schema.Array(TaskSummaryView).annotate({ description: "Newest first." }),
  meta: Schema.Struct({
    current_page: Count.annotate({ description: "The page that was asked for." }),
    per_page: Count.annotate({ description: "The page size that was asked for." }),
    last_page: Count.annotate({ description: "At least 1." }),
    total: Count.annotate({ description: "Tasks that match, over all pages." })
  }).annotate({ identifier: "PageMeta", description: "Where the page stands among all of them." })
}).annotate({ identifier: "TaskPage", description: "One page of the caller's tasks, newest first." })

export const CreatedTaskView = Schema.Struct({
  uuid: Uuid,
  status: Schema.Literal("pending"),
  max_execution_time: Count.annotate({ description: "The limit that holds, in seconds from creation." })
}).annotate({ identifier: "CreatedTask", description: "The task that was created." })

export const ToolResultsBody = Schema.Struct({
  results: Schema.Array(ToolResult).annotate({
    description: "One result for every pending call, in any order."
  })
}).annotate({ identifier: "ToolResults", description: "The results of all pending calls." })

export const CancelBody = Schema.Struct({
  reason: Schema.optional(
    Schema.NullOr(
      Schema.String.check(isAtMostCharacters(Limits.cancelReasonLength))
    )
  ).annotate({ description: `Kept in \`error\`; up to ${Limits.cancelReasonLength} characters.` })
}).annotate({ identifier: "CancelTask", description: "Why the task is canceled." })

export const RedeliverBody = Schema.Struct({
  callback_secret: Schema.optional(
    Schema.NullOr(Schema.String.check(isAtMostCharacters(Limits.callbackSecretLength)))
  ).annotate({
    description: "The task's `callback_secret`, needed for a signed webhook that was delivered: it was deleted then."
  })
}).annotate({ identifier: "Redeliver", description: "How to send the webhook again." })

export const ResumedTaskView = Schema.Struct({ uuid: Uuid, status: Schema.Literal("processing") }).annotate({
  identifier: "ResumedTask",
  description: "The task goes on."
})

export const CanceledTaskView = Schema.Struct({ uuid: Uuid, status: Schema.Literal("canceled") }).annotate({
  identifier: "CanceledTask",
  description: "The task was canceled."
})

export const CanceledTasksView = Schema.Struct({
  canceled: Count.annotate({ description: "How many tasks were canceled." }),
  uuids: Schema.Array(Uuid).annotate({ description: "Which." })
}).annotate({ identifier: "CanceledTasks", description: "The tasks that were canceled." })

/** For operators; only RPC has it. */
export const StatsView = Schema.Struct({
  counts: Schema.Struct(
    Object.fromEntries(TaskStatus.literals.map((status) => [status, Count])) as Record<TaskStatus, typeof Count>
  ),
  next_deadline: Schema.NullOr(Moment)
})

/** A node of the service as it last described itself; only RPC has it. */
export const MemberView = Schema.Struct({
  address: Schema.String,
  version: Schema.String,
  is_self: Schema.Boolean,
  started_at: Moment,
  seen_at: Moment,
  /** It was drained, and takes no shards. */
  drained: Schema.Boolean,
  /** From 0. Null where nothing is divided, since there is one node. */
  shards: Schema.NullOr(Schema.Array(Count)),
  /** Live tasks that it drives on. */
  tasks: Count,
  /** When the first of their clocks runs out. */
  next_due: Schema.NullOr(Moment),
  /** How late the latest end by a clock was in the last minute or two. */
  lateness_ms: Count
})

export const ClusterView = Schema.Struct({
  members: Schema.Array(MemberView),
  /** Of how many shards. */
  shards: Count,
  /** Shards that no member says it has: on their way, for a moment. */
  unowned: Schema.Array(Count)
})

export const ReportedView = Schema.Struct({
  status: Status,
  applied: Schema.Boolean.annotate({ description: "False for an event that was seen before or has no effect." })
}).annotate({ identifier: "ReportedEvent", description: "Where the task stands after the event (CONTRACT 4)." })
