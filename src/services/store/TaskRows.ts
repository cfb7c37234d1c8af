/** Decoders of the rows that the statements of tasks select. */
import { Schema } from "effect"
import { OpaqueJson } from "../../domain/OpaqueJson.ts"
import { RunId, TaskHead, TaskId, TaskStatus } from "../../domain/Task.ts"
import { Timestamp } from "../../domain/Timestamp.ts"
import { ToolCall } from "../../domain/ToolCall.ts"
import { RecordedEvent } from "./TaskRepository.ts"

const headKeys = {
  runId: "run_id",
  maxExecutionTime: "max_execution_time",
  acceptanceDeadline: "acceptance_deadline"
} as const
const HeadRow = TaskHead.pipe(Schema.encodeKeys(headKeys))
export const decodeHeads = Schema.decodeUnknownEffect(Schema.Array(HeadRow))

/** A row of `commit_task`. */
export const decodeCommits = Schema.decodeUnknownEffect(Schema.Array(Schema.Union([
  Schema.Struct({ outcome: Schema.Literal("Unknown") }),
  Schema.Struct({
    ...TaskHead.fields,
    outcome: Schema.Literals(["Applied", "NoEffect", "Superseded", "Revoked"]),
    hasCallback: Schema.Boolean
  }).pipe(Schema.encodeKeys({ ...headKeys, hasCallback: "has_callback" }))
])))

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
export const summaryKeys = {
  createdAt: "created_at",
  completedAt: "completed_at",
  pendingToolCalls: "pending_tool_calls"
} as const
export const decodeSummaries = Schema.decodeUnknownEffect(
  Schema.Array(Schema.Struct(SummaryFields).pipe(Schema.encodeKeys(summaryKeys)))
)
export const decodeTasks = Schema.decodeUnknownEffect(
  Schema.Array(
    Schema.Struct({
      ...SummaryFields,
      turn: Schema.NullOr(OpaqueJson),
      hasLargeTurn: Schema.Boolean,
      revision: Schema.Int,
      runId: RunId,
      deadline: Timestamp,
      acceptanceDeadline: Schema.NullOr(Timestamp)
    }).pipe(
      Schema.encodeKeys({
        ...summaryKeys,
        runId: "run_id",
        acceptanceDeadline: "acceptance_deadline",
        hasLargeTurn: "has_large_turn"
      })
    )
  )
)
export const decodePendingRuns = Schema.decodeUnknownEffect(Schema.Array(Schema.Struct({
  sub: Schema.String,
  token_id: Schema.String,
  token_issued_at: Schema.NullOr(Schema.Finite),
  run_id: RunId,
  deadline: Timestamp,
  request: OpaqueJson,
  user_token: Schema.String,
  core_state: Schema.NullOr(OpaqueJson),
  tool_results: Schema.NullOr(OpaqueJson)
})))
export const decodeCounts = Schema.decodeUnknownEffect(Schema.Array(Schema.Struct({
  status: TaskStatus,
  count: Schema.Int,
  next: Schema.NullOr(Timestamp)
})))
export const decodeStops = Schema.decodeUnknownEffect(Schema.Array(Schema.Struct({
  run_id: RunId,
  task_uuid: TaskId,
  reason: Schema.String,
  attempts: Schema.Int
})))

export const decodeEvents = Schema.decodeUnknownEffect(
  Schema.Array(RecordedEvent.pipe(Schema.encodeKeys({ occurredAt: "occurred_at" })))
)
export const decodeClaims = Schema.decodeUnknownEffect(
  Schema.Array(
    Schema.Struct({ fingerprint: Schema.String, taskId: TaskId }).pipe(Schema.encodeKeys({ taskId: "task_uuid" }))
  )
)
