/**
 * The task and its state machine. `transitions` is the only definition of which status may follow which:
 * `statusAfter`, the guards in SQL and the diagram in src/domain/README.md all read it.
 */
import { Schema } from "effect"
import { OpaqueJson } from "./json/OpaqueJson.ts"
import { Principal } from "./Principal.ts"
import { Timestamp } from "./Timestamp.ts"

export const TaskId = Schema.String.check(Schema.isUUID()).pipe(Schema.brand("TaskId"))
export type TaskId = typeof TaskId.Type
export const isTaskId = Schema.is(TaskId)

/**
 * One run of a task by the core. The first dispatch and each resume after tool results begin a new run. The id is the
 * fence of the core's events: events of an earlier run are refused.
 */
export const RunId = Schema.String.check(Schema.isUUID()).pipe(Schema.brand("RunId"))
export type RunId = typeof RunId.Type
export const isRunId = Schema.is(RunId)

export const TaskStatus = Schema.Literals(["pending", "processing", "interrupted", "completed", "failed", "canceled"])
export type TaskStatus = typeof TaskStatus.Type

/** JSON that an extension reads from the turn of an event. It is stored with the event. */
const report = Schema.optional(Schema.NullOr(Schema.String))

/** The author of the cancellation, in a short text of the caller; without it the user. */
const author = Schema.optional(Schema.String)

/** Everything that can happen to a task after its creation. */
export const TaskEvent = Schema.TaggedUnion({
  /** The core's processing notification. */
  Accepted: {},
  /** A partial turn; it replaces the last one. */
  Progressed: { turn: OpaqueJson, report },
  /** The model called client tools: `toolCalls` is an array of `PassedCall`. `state` is opaque state of the core, sent back when the task resumes. */
  Interrupted: {
    toolCalls: OpaqueJson,
    state: Schema.NullOr(OpaqueJson),
    turn: Schema.NullOr(OpaqueJson),
    report
  },
  Completed: { turn: OpaqueJson, report },
  /** The core reported an error. */
  Failed: { error: Schema.String, turn: Schema.NullOr(OpaqueJson), report },
  /** The core refused the run. It may have accepted it in an earlier attempt whose response was lost. */
  Refused: { error: Schema.String },
  AcceptanceExpired: { error: Schema.String },
  TimeLimitExceeded: { error: Schema.String },
  TokenRevoked: {},
  /** `runId` is the run that resumes the task. The token (`userToken`, encrypted) replaces the task's token. */
  ToolResultsSubmitted: {
    results: OpaqueJson,
    runId: RunId,
    principal: Principal,
    userToken: Schema.String
  },
  Canceled: { reason: Schema.NullOr(Schema.String), author },
  /** The client stopped a task that it may not cancel, or an operator or an internal service did. */
  Withdrawn: { reason: Schema.String, author }
})
export type TaskEvent = typeof TaskEvent.Type
export type TaskEventTag = TaskEvent["_tag"]

/** Every legal transition: the status that an event leads to, by the status it leaves. */
const transitions = {
  pending: {
    Accepted: "processing",
    Progressed: "processing",
    Interrupted: "interrupted",
    Completed: "completed",
    Failed: "failed",
    Refused: "failed",
    AcceptanceExpired: "failed",
    TimeLimitExceeded: "failed",
    TokenRevoked: "failed",
    Withdrawn: "canceled"
  },
  processing: {
    Progressed: "processing",
    Interrupted: "interrupted",
    Completed: "completed",
    Failed: "failed",
    Refused: "failed",
    TimeLimitExceeded: "failed",
    TokenRevoked: "failed",
    Withdrawn: "canceled"
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

const table: Readonly<Record<TaskStatus, Partial<Record<TaskEventTag, TaskStatus>>>> = transitions

/** The status that `event` leads to from `from`; undefined if it does not apply to a task that is `from`. */
export const statusAfter = (from: TaskStatus, event: TaskEventTag): TaskStatus | undefined => table[from][event]

/** The statuses that an event may leave: the guard of every statement that changes a task. */
export const sourcesOf = (event: TaskEventTag): ReadonlyArray<TaskStatus> =>
  TaskStatus.literals.filter((status) => statusAfter(status, event) !== undefined)

/** The status that an event leads to. It does not depend on the status it leaves, which a test asserts. */
export const targetOf = (event: TaskEventTag): TaskStatus => {
  for (const status of TaskStatus.literals) {
    const to = statusAfter(status, event)
    if (to !== undefined) return to
  }
  throw new Error(`no transition for ${event}`)
}

export const isTerminal = (status: TaskStatus): boolean => terminal.has(status)

const terminal: ReadonlySet<TaskStatus> = new Set(
  TaskStatus.literals.filter((status) => Object.keys(transitions[status]).length === 0)
)

/** Statuses that occupy one of a user's active-task slots. */
export const activeStatuses: ReadonlyArray<TaskStatus> = TaskStatus.literals.filter((status) => !isTerminal(status))

/** Statuses in which the core has the run, or is to get it. */
export const runningStatuses: ReadonlyArray<TaskStatus> = sourcesOf("Completed")

export const isRunning = (status: TaskStatus): boolean => statusAfter(status, "Completed") !== undefined

/** Whether the event is refused when the token of the run is revoked. The task then fails. */
export const needsValidToken = (event: TaskEventTag): boolean => tokenBound.has(event)

const tokenBound: ReadonlySet<TaskEventTag> = new Set(["Accepted", "Progressed", "Interrupted", "Completed"])

/** The reason sent to the core when `event` ends a run that it may still work on; undefined when no stop is needed. */
export const stopReasonOf = (event: TaskEventTag): string | undefined => stopReasons[event]

const stopReasons: Partial<Record<TaskEventTag, string>> = {
  Refused: "refused",
  AcceptanceExpired: "not_accepted",
  TimeLimitExceeded: "time_limit_exceeded",
  TokenRevoked: "token_revoked",
  Canceled: "canceled",
  Withdrawn: "canceled"
}

/** One row of the task list. */
export const TaskSummary = Schema.Struct({
  uuid: TaskId,
  sub: Schema.String,
  status: TaskStatus,
  error: Schema.NullOr(Schema.String),
  createdAt: Timestamp,
  completedAt: Schema.NullOr(Timestamp),
  /** An array of `PassedCall`. */
  pendingToolCalls: Schema.NullOr(OpaqueJson)
})
export interface TaskSummary extends Schema.Schema.Type<typeof TaskSummary> {}

/** The place of the current run: `waiting` in the queue, or `held` when it counts for a limit or was admitted. */
export const Room = Schema.Literals(["waiting", "held"])
export type Room = typeof Room.Type

/** The priority of a task without one, from 0 to 9. A higher one goes first. */
export const usualPriority = 5

/** The part of a live task that its actor needs: status, current run and deadlines. */
export const TaskHead = Schema.Struct({
  uuid: TaskId,
  sub: Schema.String,
  status: TaskStatus,
  /** Counts the changes of the task, and so identifies a version of it. */
  revision: Schema.Int,
  runId: RunId,
  /** Seconds, counted from creation. */
  maxExecutionTime: Schema.Int,
  deadline: Timestamp,
  /** The acceptance deadline; null until the task is sent to the core for the first time. */
  acceptanceDeadline: Schema.NullOr(Timestamp),
  /** When tool results began the current run; null for a first run, and once the core has reported of the run. */
  resumedAt: Schema.NullOr(Timestamp),
  /** The latest event, also one of the current run that changed nothing; null before the first. */
  lastEventAt: Schema.NullOr(Timestamp),
  /** How often the current run was dispatched again since then, because it was silent; null if it was not. */
  redispatches: Schema.NullOr(Schema.Int),
  /** Null for a run that was not in the queue, and of a task whose core needs no room. */
  room: Schema.NullOr(Room),
  /** Counts the changes of `room` and of the acceptance deadline, which are no changes of the task. */
  queueRevision: Schema.Int
})
export interface TaskHead extends Schema.Schema.Type<typeof TaskHead> {}

export interface Task extends TaskSummary, TaskHead {
  /** The core's result, unchanged. It is partial until the task is completed. */
  readonly turn: OpaqueJson | null
}
