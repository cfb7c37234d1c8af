/** The protocol between the service and the processing core, in both directions. */
import { Schema } from "effect"
import * as Failure from "./Failure.ts"
import { absentOr } from "./Fields.ts"
import { fromValue, JsonObject, JsonValue } from "./OpaqueJson.ts"
import { RunId, TaskEvent, TaskId } from "./Task.ts"
import { RunRequest } from "./TaskRequest.ts"
import { ToolCall, ToolResult } from "./ToolCall.ts"

/** Body of `POST {CORE_URL}/runs`. Idempotent by `run_id`. */
export const StartRun = Schema.Struct({
  task_id: TaskId,
  run_id: RunId,
  ...RunRequest.fields,
  user: Schema.Struct({ sub: Schema.String }),
  user_token: Schema.String,
  deadline_at: Schema.String,
  events_url: Schema.String,
  resume: Schema.NullOr(Schema.Struct({ state: Schema.Json, results: Schema.Array(ToolResult) }))
})
export type StartRun = typeof StartRun.Type

const envelope = {
  task_id: Schema.String.annotate({ description: "The task." }),
  run_id: Schema.String.annotate({
    description: "The run that the event belongs to. Events of a run that is not the task's current one are refused."
  }),
  event_id: Schema.NonEmptyString.check(Schema.isMaxLength(255, { expected: "at most 255 characters" })).annotate({
    description: "Identifies the event within the task. An event whose id was seen before changes nothing."
  })
}

export const wholeTurn = JsonObject.annotate({ identifier: "Turn" })
const turn = absentOr(wholeTurn, "The turn so far.")
const accepted = absentOr(
  Schema.Boolean,
  "True when the core has sent no `processing` event for this run. The service records that one first, with this event."
)

/** One event type, with its name and description in the OpenAPI document. */
const eventOf = <Type extends string, Fields extends Schema.Struct.Fields>(
  type: Type,
  identifier: string,
  description: string,
  fields: Fields
) => Schema.Struct({ ...envelope, type: Schema.Literal(type), ...fields }).annotate({ identifier, description })

export const FailureCode = Schema.Literals(["assistant_not_found", "payment_required", "token_revoked", "internal"])
export type FailureCode = typeof FailureCode.Type

/** Body of `POST /internal/core/events`. */
export const CoreEvent = Schema.Union([
  eventOf("processing", "ProcessingEvent", "The core accepted the run and is working on it.", {}),
  eventOf("progress", "ProgressEvent", "A partial turn; it replaces the last one.", { turn: wholeTurn, accepted }),
  eventOf("interrupted", "InterruptedEvent", "The model called client tools.", {
    tool_calls: Schema.NonEmptyArray(ToolCall).annotate({ description: "The calls, at least one." }),
    state: Schema.optional(JsonValue).annotate({
      description: "Opaque state of the core, sent back when the task resumes."
    }),
    turn,
    accepted
  }),
  eventOf("completed", "CompletedEvent", "The run ended well.", { turn: wholeTurn, accepted }),
  eventOf("failed", "FailedEvent", "The run failed.", {
    code: FailureCode.annotate({ description: "The cause of the failure." }),
    message: absentOr(Schema.String, "A reason that is safe to show."),
    turn,
    accepted
  })
]).annotate({
  identifier: "CoreEvent",
  description: "An event that the processing core reports about a run.",
  discriminator: "type",
  expected: "one of processing, progress, interrupted, completed, failed"
})
export type CoreEvent = typeof CoreEvent.Type

/** The fixed message of the code. For `internal`, the core's own message, which it marks as safe to show, wins. */
const errorOf = (code: FailureCode, message: string | null | undefined): string => {
  switch (code) {
    case "assistant_not_found":
      return Failure.assistantNotAvailable
    case "payment_required":
      return Failure.insufficientBalance
    case "token_revoked":
      return Failure.tokenRevoked
    case "internal":
      return message || Failure.processingFailed
  }
}

/** A core event without the ids. */
export type Unaddressed<Event = CoreEvent> = Event extends unknown ? Omit<Event, keyof typeof envelope> : never

/** Translates an event of the core into an event of the task. */
const toTaskEvent = (event: Unaddressed): TaskEvent => {
  switch (event.type) {
    case "processing":
      return TaskEvent.cases.Accepted.make({})
    case "progress":
      return TaskEvent.cases.Progressed.make({ turn: fromValue(event.turn) })
    case "interrupted":
      return TaskEvent.cases.Interrupted.make({
        toolCalls: event.tool_calls,
        state: event.state === undefined ? null : fromValue(event.state),
        turn: event.turn ? fromValue(event.turn) : null
      })
    case "completed":
      return TaskEvent.cases.Completed.make({ turn: fromValue(event.turn) })
    case "failed":
      return TaskEvent.cases.Failed.make({
        error: errorOf(event.code, event.message),
        turn: event.turn ? fromValue(event.turn) : null
      })
  }
}

/** A core event with what it means. */
export interface CoreReport {
  readonly task_id: string
  readonly run_id: string
  readonly event_id: string
  readonly event: TaskEvent
  /** Whether the acceptance of the run is recorded first. */
  readonly recordsAcceptance: boolean
}

export const toReport = (event: CoreEvent): CoreReport => ({
  task_id: event.task_id,
  run_id: event.run_id,
  event_id: event.event_id,
  event: toTaskEvent(event),
  recordsAcceptance: event.type !== "processing" && event.accepted === true
})
