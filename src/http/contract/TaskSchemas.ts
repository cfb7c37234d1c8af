/** Public schemas of tasks, their events and their webhook deliveries. */
import { Schema } from "effect"
import { absentOr, isAtMostCharacters } from "../../domain/Fields.ts"
import { JsonObject, JsonValue, opaqueObject } from "../../domain/json/OpaqueJson.ts"
import * as Limits from "../../domain/Limits.ts"
import { TaskStatus } from "../../domain/Task.ts"
import { InputItem, RunRequest } from "../../domain/TaskRequest.ts"
import { PassedResult, ToolCall } from "../../domain/ToolCall.ts"
import type { Turn } from "../../domain/Turn.ts"
import { maxPosition } from "../../domain/WaitingOn.ts"
import { AttemptError, DeliveryState } from "../../domain/Webhook.ts"

export const Uuid = Schema.String.annotate({ description: "Task identifier.", format: "uuid" })

export const Status = TaskStatus.annotate({ identifier: "TaskStatus", description: "Status of a task." })

export const Moment = Schema.String.annotate({
  identifier: "Timestamp",
  description: "ISO 8601 in UTC with exactly six fractional digits, as in `2026-11-21T08:30:00.123456Z`.",
  format: "date-time"
})

export const Count = Schema.Int.check(Schema.isGreaterThanOrEqualTo(0))

const Labels = Schema.Record(Schema.String, Schema.String)

const summary = {
  uuid: Uuid,
  status: Status,
  error: Schema.NullOr(Schema.String).annotate({
    description: "Human-readable reason when failed; when canceled, the `reason` if one was given."
  }),
  created_at: Moment.annotateKey({ description: "Moment of the creation." }),
  completed_at: Schema.NullOr(Moment).annotate({
    description: "Moment of the transition to a final status; null before."
  }),
  pending_tool_calls: Schema.optionalKey(Schema.Array(ToolCall)).annotate({
    description: "Present only while the status is interrupted: the client tool calls that need results."
  })
}

const included = {
  metadata: Schema.optionalKey(Labels).annotate({
    description: "Present only with `?include=metadata`: the `metadata` of the request."
  })
}

export const WaitingOnView = Schema.Struct({
  party: Schema.Literals(["core", "client", "queue"]).annotate({
    description: "The party that has to act; `queue` while the core has no room for the run."
  }),
  for: Schema.Literals(["acceptance", "result", "tool_results", "room"]).annotate({
    description: "The act that the party has to provide."
  }),
  position: Schema.NullOr(Count).annotate({
    description:
      `With \`queue\` the place in the queue, 1 for the next run. An estimate; ${maxPosition} means at least so many. Otherwise null.`
  }),
  until: Moment.annotateKey({ description: "Deadline; the task fails when it passes." }),
  silent_since: Schema.NullOr(Moment).annotate({
    description:
      "The last sign of life, while the core reports nothing of the run and it was dispatched again; otherwise null."
  }),
  hand_overs: Schema.NullOr(Count).annotate({
    description: "With `silent_since`, how often the run was dispatched again since then; otherwise null."
  })
}).annotate({
  identifier: "WaitingOn",
  description: "The party that has to act next, what it has to provide, and until when."
})

const TaskSummaryView = Schema.Struct({
  ...summary,
  ...included,
  excerpt: Schema.optionalKey(Schema.NullOr(Schema.String)).annotate({
    description:
      "Present only with `?include=excerpt`: the first 120 characters of the request, or the name of its first "
      + "file; null if the request is not kept."
  }),
  assistant_id: Schema.optionalKey(Schema.NullOr(Count)).annotate({
    description: "Present only with `?include=assistant`: the assistant; null for a task of an early version."
  }),
  waiting_on: Schema.optionalKey(Schema.NullOr(WaitingOnView)).annotate({
    description: "Present only with `?include=waiting_on`: the party that has to act next; null for an ended task."
  })
}).annotate({
  identifier: "TaskSummary",
  description: "One row of the task list; it never has a `turn`."
})

const AskedTaskView = Schema.Struct({
  assistant_id: RunRequest.fields.assistant_id.annotate({ description: "The assistant." }),
  // A task shows its items as they were sent: the document has their schema, and clients decode nothing of them.
  input: Schema.Array(InputItem as unknown as Schema.Codec<typeof InputItem.Encoded>).annotate({
    description: "The input items."
  }),
  turns: Schema.Array(JsonObject).annotate({
    description: "The conversation, earlier turns replaced by their messages."
  }),
  continues: Schema.NullOr(Schema.String).annotate({
    description: "The task whose messages come in front of `turns`, behind instructions; null without one."
  }),
  client_tools: Schema.Array(JsonObject).annotate({ description: "The client tools, in one form." }),
  llm_model_id: RunRequest.fields.llm_model_id.annotate({ description: "The LLM configuration." }),
  image_generator_id: RunRequest.fields.image_generator_id.annotate({
    description: "The image generator configuration."
  }),
  options: Schema.NullOr(JsonObject).annotate({
    description: "Options of the model by a client of another protocol; null without them."
  }),
  max_execution_time: Count.annotate({ description: "The limit in seconds." }),
  priority: Count.annotate({ description: "The place in the queue while the core has no room: 0 to 9, 5 usually." }),
  callback_url: Schema.NullOr(Schema.String).annotate({ description: "The URL that receives webhooks." }),
  metadata: Labels.annotate({ description: "The client's labels." })
}).annotate({
  identifier: "AskedTask",
  description:
    `The request of a task, without secrets. Requests of more than ${Limits.keptRequestBytes} bytes are not kept.`
})

const Task = Schema.Struct({
  ...summary,
  turn: Schema.NullOr(opaqueObject<Turn>("Turn")).annotate({
    description: "The result when completed. Before that, and in a failed task, it may have partial output."
  }),
  waiting_on: Schema.optionalKey(Schema.NullOr(WaitingOnView)).annotate({
    description: "Present only with `?include=waiting_on`; null when the task has ended."
  }),
  ...included,
  request: Schema.optionalKey(Schema.NullOr(AskedTaskView)).annotate({
    description: "Present only with `?include=request`: the request. Null when it is not kept."
  })
})

/** A task keeps the fields that extensions add to it. Their clients decode them: no type here has them. */
export const TaskView = Schema.StructWithRest(Task, [Schema.Record(Schema.String, JsonValue)]).annotate({
  identifier: "Task",
  description: "A task. A webhook carries the same object."
}) as unknown as typeof Task

export const TaskEventView = Schema.Struct({
  uuid: Uuid,
  revision: Count.annotate({ description: "Number of changes of the task so far; 0 is its creation." }),
  status: Status,
  occurred_at: Moment,
  text: Schema.optionalKey(Schema.String).annotate({
    description:
      "Only with `?include=turn`, in a progress event: the text parts of the partial turn's `output`, joined by a blank "
      + `line and cut after ${Limits.eventTextLength} characters. Absent when it has not changed, when a later event has it, and when the `
      + `JSON of the turn is longer than ${Limits.eventTurnBytes} bytes.`
  })
}).annotate({
  identifier: "TaskEvent",
  description: "The `data` of one server-sent event. Its `id` is the revision, its `event` the status or `progress`."
})

export const TextEventView = Schema.Struct({
  offset: Count.annotate({ description: "UTF-16 units of the text before this part." }),
  text: Schema.String.annotate({ description: "The text that was written since." }),
  replaced: Schema.optionalKey(Schema.Boolean).annotate({
    description: "True when the text is another one, not a continuation: forget the one before."
  })
}).annotate({
  identifier: "TextEvent",
  description:
    "Only with `?include=text`: the `data` of an event `text`. Its `id` is the last revision, a dot, and the units of the text so far."
})

/** A `TaskEvent` with its name: RPC has no `event` line like server-sent events. */
export const WatchedEventView = Schema.Struct({
  ...TaskEventView.fields,
  event: Schema.Literals([...TaskStatus.literals, "progress"])
})

const DeliveryAttempt = Schema.Struct({
  number: Count.annotate({ description: "From 1." }),
  started_at: Moment,
  duration_ms: Schema.NullOr(Count).annotate({
    description: "Milliseconds; null while the attempt is in progress, or when its node stopped before it ended."
  }),
  response_status: Schema.NullOr(Count).annotate({ description: "HTTP status of the response; null without one." }),
  error: Schema.NullOr(AttemptError).annotate({ description: "Class of the failure; null after a success." }),
  hint: Schema.NullOr(Schema.String).annotate({
    description:
      "A remedy, where the status names one: a receiver that answers 413 has to take larger bodies; otherwise null."
  })
}).annotate({ identifier: "DeliveryAttempt", description: "One POST to the callback URL." })

export const DeliveryView = Schema.Struct({
  id: Schema.String.annotate({ description: "Delivery identifier, sent as `webhook-id`." }),
  status: Status.annotateKey({ description: "The task status that the webhook reports." }),
  state: DeliveryState.annotate({ description: "State of the delivery." }),
  created_at: Moment,
  next_attempt_at: Schema.NullOr(Moment).annotate({
    description: "Null when no further attempt is planned, and while one is in progress."
  }),
  attempts: Schema.Array(DeliveryAttempt).annotate({ description: "Oldest first." })
}).annotate({ identifier: "Delivery", description: "The webhook of one status, with its attempts." })

export const DeliveriesView = Schema.Struct({
  data: Schema.Array(DeliveryView).annotate({ description: "Oldest first." })
}).annotate({
  identifier: "Deliveries",
  description: "The webhooks of a task, oldest first."
})

/** The field `meta` of a page. */
export const PageMetaView = Schema.Struct({
  current_page: Count.annotate({ description: "The requested page." }),
  per_page: Count.annotate({ description: "The requested page size." }),
  last_page: Count.annotate({ description: "At least 1." }),
  total: Count.annotate({ description: "All that match, over all pages." })
}).annotate({ identifier: "PageMeta", description: "Position of the page among all pages." })

export const TaskPageView = Schema.Struct({
  data: Schema.Array(TaskSummaryView).annotate({ description: "Newest first." }),
  meta: PageMetaView
}).annotate({ identifier: "TaskPage", description: "One page of the caller's tasks, newest first." })

export const CreatedTaskView = Schema.Struct({
  uuid: Uuid,
  status: Schema.Literal("pending"),
  max_execution_time: Count.annotate({ description: "The limit of this task, in seconds from creation." })
}).annotate({ identifier: "CreatedTask", description: "The task that was created." })

export const ToolResultsBody = Schema.Struct({
  results: Schema.Array(PassedResult).annotate({
    description: "One result for every pending call, in any order."
  })
}).annotate({ identifier: "ToolResults", description: "The results of all pending calls." })

export const CancelBody = Schema.Struct({
  reason: absentOr(
    Schema.String.check(isAtMostCharacters(Limits.cancelReasonLength)),
    `Stored in \`error\`; up to ${Limits.cancelReasonLength} characters.`
  )
}).annotate({ identifier: "CancelTask", description: "Why the task is canceled." })

export const RedeliverBody = Schema.Struct({
  callback_secret: absentOr(
    Schema.String.check(isAtMostCharacters(Limits.callbackSecretLength)),
    "The task's `callback_secret`. Required for a signed webhook that was delivered, because the secret is deleted on success."
  )
}).annotate({ identifier: "Redeliver", description: "Options of a redelivery." })

export const ResumedTaskView = Schema.Struct({ uuid: Uuid, status: Schema.Literal("processing") }).annotate({
  identifier: "ResumedTask",
  description: "The task was resumed."
})

export const CanceledTaskView = Schema.Struct({ uuid: Uuid, status: Schema.Literal("canceled") }).annotate({
  identifier: "CanceledTask",
  description: "The task was canceled."
})

export const CanceledTasksView = Schema.Struct({
  canceled: Count.annotate({ description: "Number of canceled tasks." }),
  uuids: Schema.Array(Uuid).annotate({ description: "Their identifiers." })
}).annotate({ identifier: "CanceledTasks", description: "The tasks that were canceled." })

export const ReportedView = Schema.Struct({
  status: Status,
  applied: Schema.Boolean.annotate({ description: "False for a repeated event and for one without effect." }),
  next: Schema.optionalKey(Schema.NullOr(Count)).annotate({
    description:
      "After appends, and after a turn with `next_append`: the index of the append that is expected. Null when it is not known here: send a turn "
      + "with `next_append`."
  })
}).annotate({ identifier: "ReportedEvent", description: "Status of the task after the event." })

const RefusedEventView = Schema.Struct({
  message: Schema.String.annotate({ description: "The problem in words." }),
  code: Schema.String.annotate({ description: "A stable word for the problem." }),
  status: Schema.Int.annotate({
    description: "The status that the answer would have had alone: after 409 stop the run."
  }),
  errors: Schema.optionalKey(Schema.Record(Schema.String, Schema.Array(Schema.String))).annotate({
    description: "With 422: the problems of each invalid field, by its dotted path."
  })
}).annotate({ identifier: "RefusedEvent", description: "Why an event was refused." })

export const ReportedEventsView = Schema.Struct({
  results: Schema.Array(Schema.Union([ReportedView, RefusedEventView])).annotate({
    description: "The outcome of each event, in their order."
  })
}).annotate({ identifier: "ReportedEvents", description: "The answer to several events." })
