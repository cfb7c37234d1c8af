/**
 * The task and its state machine. `transitions` is the only place that says which status may follow which:
 * `transition`, the guards in SQL, the check constraint, README's table and the property tests all read it.
 */
import { Result, Schema } from "effect"
import { OpaqueJson } from "./OpaqueJson.ts"
import { Principal } from "./Principal.ts"
import { Timestamp } from "./Timestamp.ts"
import { ToolCall } from "./ToolCall.ts"

export const TaskId = Schema.String.check(Schema.isUUID()).pipe(Schema.brand("TaskId"))
export type TaskId = typeof TaskId.Type

/** One hand-over of a task to the core, and the fence of its events: a new one for each leg (CONTRACT 4). */
export const RunId = Schema.String.check(Schema.isUUID()).pipe(Schema.brand("RunId"))
export type RunId = typeof RunId.Type

export const TaskStatus = Schema.Literals(["pending", "processing", "interrupted", "completed", "failed", "canceled"])
export type TaskStatus = typeof TaskStatus.Type

/** Everything that can happen to a task after its creation. */
export const TaskEvent = Schema.TaggedUnion({
  /** The core's processing notification. */
  Accepted: {},
  /** A partial turn; it replaces the last one. */
  Progressed: { turn: OpaqueJson },
  /** The model called client tools. `state` is the core's own, handed back when the task resumes. */
  Interrupted: {
    toolCalls: Schema.NonEmptyArray(ToolCall),
    state: Schema.NullOr(OpaqueJson),
    turn: Schema.NullOr(OpaqueJson)
  },
  Completed: { turn: OpaqueJson },
  /** The core reported an error. */
  Failed: { error: Schema.String, turn: Schema.NullOr(OpaqueJson) },
  /** The core answered that it will not take the run. It may have taken it before, and lost its answer then. */
  Refused: { error: Schema.String },
  AcceptanceExpired: { error: Schema.String },
  TimeLimitExceeded: { error: Schema.String },
  TokenRevoked: {},
  /** `runId` names the leg that resumes the task; the token, `userToken` when encrypted, becomes the task's own. */
  ToolResultsSubmitted: {
    results: OpaqueJson,
    runId: RunId,
    principal: Principal,
    userToken: Schema.String
  },
  Canceled: { reason: Schema.NullOr(Schema.String) }
})
export type TaskEvent = typeof TaskEvent.Type
export type TaskEventTag = TaskEvent["_tag"]

/** SPEC "States and transitions": every legal move. */
export const transitions = {
  pending: {
    Accepted: "processing",
    Progressed: "processing",
    Interrupted: "interrupted",
    Completed: "completed",
    Failed: "failed",
    Refused: "failed",
    AcceptanceExpired: "failed",
    TimeLimitExceeded: "failed",
    TokenRevoked: "failed"
  },
  processing: {
    Progressed: "processing",
    Interrupted: "interrupted",
    Completed: "completed",
    Failed: "failed",
    Refused: "failed",
    TimeLimitExceeded: "failed",
    TokenRevoked: "failed"
  },
  interrupted: {
    ToolResultsSubmitted: "processing",
    Canceled: "canceled",
    TimeLimitExceeded: "failed"
  },
  completed: {},
  failed: {},
  canceled: {}
} as const satisfies Record<TaskStatus, Partial<Record<TaskEventTag, TaskStatus>>>

export class IllegalTransition extends Schema.TaggedError<IllegalTransition>()("IllegalTransition", {
  from: TaskStatus,
  event: Schema.String
}) {
  override get message() {
    return `${this.event} does not apply to a task that is ${this.from}`
  }
}

const next = (from: TaskStatus, event: TaskEventTag): TaskStatus | undefined =>
  (transitions[from] as Partial<Record<TaskEventTag, TaskStatus>>)[event]

/** Where `event` leads from `from`; total over every status and event. */
export const transition = (from: TaskStatus, event: TaskEventTag): Result.Result<TaskStatus, IllegalTransition> => {
  const to = next(from, event)
  return to === undefined ? Result.fail(new IllegalTransition({ from, event })) : Result.succeed(to)
}

/** The statuses an event may leave from: the guard of every statement that changes a task. */
export const sourcesOf = (event: TaskEventTag): ReadonlyArray<TaskStatus> =>
  TaskStatus.literals.filter((status) => next(status, event) !== undefined)

/** The one status an event leads to, whichever source it leaves; a test holds the table to that. */
export const targetOf = (event: TaskEventTag): TaskStatus => {
  for (const status of TaskStatus.literals) {
    const to = next(status, event)
    if (to !== undefined) return to
  }
  throw new Error(`no transition for ${event}`)
}

export const isTerminal = (status: TaskStatus): boolean => Object.keys(transitions[status]).length === 0

/** Statuses that hold one of a user's active-task slots (SPEC "Limits"). */
export const activeStatuses: ReadonlyArray<TaskStatus> = TaskStatus.literals.filter((status) => !isTerminal(status))

/** Events by which a run goes on or ends well: with a revoked token it does neither (CONTRACT 3). */
export const needsValidToken = (event: TaskEventTag): boolean => tokenBound.has(event)

const tokenBound: ReadonlySet<TaskEventTag> = new Set(["Accepted", "Progressed", "Interrupted", "Completed"])

/** Whether the core may still be at work on the run that `event` ends, and so has to be told to stop (CONTRACT 3, 4). */
export const stopReasonOf = (event: TaskEventTag): string | undefined => stopReasons[event]

const stopReasons: Partial<Record<TaskEventTag, string>> = {
  Refused: "refused",
  AcceptanceExpired: "not_accepted",
  TimeLimitExceeded: "time_limit_exceeded",
  TokenRevoked: "token_revoked",
  Canceled: "canceled"
}

/** What a list row shows (SPEC "Task summary"). */
export interface TaskSummary {
  readonly uuid: TaskId
  readonly sub: string
  readonly status: TaskStatus
  readonly error: string | null
  readonly createdAt: Timestamp
  readonly completedAt: Timestamp | null
  readonly pendingToolCalls: ReadonlyArray<ToolCall> | null
}

export interface Task extends TaskSummary {
  /** The core's result, as it gave it; partial until the task is completed. */
  readonly turn: OpaqueJson | null
  /** Counts the changes of the task, and so names a version of it. */
  readonly revision: number
  readonly runId: RunId
  readonly deadline: Timestamp
  /** End of the acceptance clock, once that has started. */
  readonly acceptanceDeadline: Timestamp | null
}

/** What an actor needs to know of a live task: where it stands and which clocks run. */
export const TaskHead = Schema.Struct({
  uuid: TaskId,
  sub: Schema.String,
  status: TaskStatus,
  revision: Schema.Int,
  runId: RunId,
  /** Seconds, counted from creation. */
  maxExecutionTime: Schema.Int,
  deadline: Timestamp,
  /** End of the acceptance clock; null until the task is handed to the core for the first time. */
  acceptanceDeadline: Schema.NullOr(Timestamp)
})
export type TaskHead = typeof TaskHead.Type
