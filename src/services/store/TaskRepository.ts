/**
 * The store of tasks. Every change of a task is one guarded statement: of two racing events one wins, and the other gets
 * the current head as a value. The same statement inserts the event row and the outbox rows (stop, webhook).
 * `TaskNotifications` are published after it.
 */
import { Context, type Duration, type Effect, type Option, Schema } from "effect"
import type { OpaqueJson } from "../../domain/OpaqueJson.ts"
import type { Principal } from "../../domain/Principal.ts"
import {
  type RunId,
  type Task,
  TaskEvent,
  type TaskEventTag,
  type TaskHead,
  type TaskId,
  TaskStatus,
  type TaskSummary
} from "../../domain/Task.ts"
import type { IdempotencyKeyReused, TooManyActiveTasks } from "../../domain/TaskErrors.ts"
import type { TaskShard } from "../../domain/TaskShard.ts"
import { Timestamp } from "../../domain/Timestamp.ts"

/** A user's idempotency key for one request. The statement of the change also claims it. */
export interface IdempotencyClaim {
  readonly key: string
  /** Distinguishes requests: it covers operation, task and body. */
  readonly fingerprint: string
}

/** A stored claim: the request's fingerprint and the task that the request created or changed. */
export interface Claimed {
  readonly fingerprint: string
  readonly taskId: TaskId
}

export interface NewTask {
  readonly uuid: TaskId
  readonly principal: Principal
  readonly runId: RunId
  readonly callbackUrl: string | null
  readonly maxExecutionTime: number
  readonly createdAt: Timestamp
  readonly deadline: Timestamp
  /** Null when the dispatch waits for a slot: the deadline is set at the first attempt. */
  readonly acceptanceDeadline: Timestamp | null
  /** The `RunRequest`, encoded. */
  readonly request: OpaqueJson
  /** Encrypted. */
  readonly userToken: string
  /** Encrypted. */
  readonly callbackSecret: string | null
}

/** The created task; on a replay, the task that the first request created. */
export interface Created {
  readonly taskId: TaskId
  readonly isReplay: boolean
}

export interface TaskFilter {
  readonly sub: string
  /** Empty means all statuses. */
  readonly statuses: ReadonlyArray<TaskStatus>
  readonly page: number
  readonly perPage: number
}

export interface TaskPage {
  readonly tasks: ReadonlyArray<TaskSummary>
  readonly total: number
}

/** Fences an event to its run and deduplicates it by the core's event id. Absent for events that do not come from a run. */
export interface Fence {
  readonly runId: RunId
  readonly coreEventId?: string
}

export type Commit =
  | { readonly _tag: "Applied"; readonly head: TaskHead }
  /** Nothing changed: the event is a repetition, or is illegal in the task's status. */
  | { readonly _tag: "NoEffect"; readonly head: TaskHead }
  /** Nothing changed: the run is not the task's current run, or the task has ended. */
  | { readonly _tag: "Superseded"; readonly head: TaskHead }
  /** Nothing changed: the run's token is revoked. */
  | { readonly _tag: "Revoked"; readonly head: TaskHead }
  | { readonly _tag: "Unknown" }

/** The fields that a dispatch needs in addition to the head. */
export interface PendingRun {
  readonly principal: Principal
  readonly runId: RunId
  readonly deadline: Timestamp
  readonly request: OpaqueJson
  /** Encrypted. */
  readonly userToken: string
  /** Not null for a run that resumes an interrupted task. */
  readonly resume: { readonly state: OpaqueJson | null; readonly results: OpaqueJson } | null
}

/** One change of a task, for its event stream. */
export const RecordedEvent = Schema.Struct({
  revision: Schema.Int,
  type: Schema.Literals(["Created", ...Object.keys(TaskEvent.cases) as ReadonlyArray<TaskEventTag>]),
  /** The status after the change. */
  status: TaskStatus,
  occurredAt: Timestamp
})
export type RecordedEvent = typeof RecordedEvent.Type

/** The number of tasks by status and the earliest deadline of live tasks. */
export interface TaskStats {
  readonly counts: Readonly<Record<TaskStatus, number>>
  readonly nextDeadline: Timestamp | null
}

export interface PendingStop {
  readonly runId: RunId
  readonly taskId: TaskId
  readonly reason: string
  /** This attempt's number, from 1. */
  readonly attempt: number
}

export class TaskRepository extends Context.Service<TaskRepository, {
  /** Checks the claim and the active limit and inserts, atomically per user and in one round trip. */
  readonly create: (
    task: NewTask,
    maxActive: number,
    claim?: IdempotencyClaim
  ) => Effect.Effect<Created, TooManyActiveTasks | IdempotencyKeyReused>
  readonly get: (uuid: TaskId) => Effect.Effect<Option.Option<Task>>
  /** The heads of those `uuids` that exist. */
  readonly heads: (uuids: ReadonlyArray<TaskId>) => Effect.Effect<ReadonlyArray<TaskHead>>
  /** The events of a task after `revision`, in order. The creation is revision 0. */
  readonly eventsAfter: (
    uuid: TaskId,
    revision: number,
    limit: number
  ) => Effect.Effect<ReadonlyArray<RecordedEvent>>
  /** Newest first. */
  readonly list: (filter: TaskFilter) => Effect.Effect<TaskPage>
  /** Applies `event` if the transition table allows it and stores the claim, in one statement. */
  readonly commit: (
    uuid: TaskId,
    event: TaskEvent,
    at: Timestamp,
    fence?: Fence,
    claim?: IdempotencyClaim & { readonly sub: string }
  ) => Effect.Effect<Commit>
  /** The unexpired claim of a user's key. */
  readonly claimed: (sub: string, key: string, at: Timestamp) => Effect.Effect<Option.Option<Claimed>>
  /** Deletes claims that expired before `at`; returns their number. */
  readonly deleteExpiredKeys: (at: Timestamp, limit: number) => Effect.Effect<number>
  /** Deletes tasks that ended before `before` and have no pending webhook, with all their rows; returns their number. */
  readonly deleteEnded: (before: Timestamp, limit: number) => Effect.Effect<number>
  /** Cancels all interrupted tasks of a user in one statement. */
  readonly cancelInterrupted: (sub: string, at: Timestamp) => Effect.Effect<ReadonlyArray<TaskHead>>
  /** Sets the acceptance deadline of a pending run whose dispatch had to wait. */
  readonly startAcceptanceClock: (uuid: TaskId, runId: RunId, deadline: Timestamp) => Effect.Effect<void>
  readonly pendingRun: (uuid: TaskId) => Effect.Effect<Option.Option<PendingRun>>
  /** A keyset page of the live tasks of `shards`, or of all shards, in the order of their ids. */
  readonly live: (
    after: TaskId | undefined,
    limit: number,
    shards?: ReadonlyArray<TaskShard>
  ) => Effect.Effect<ReadonlyArray<TaskHead>>
  /** Scans all tasks. */
  readonly stats: Effect.Effect<TaskStats>
  /** Scans live tasks only; the other counts are zero. */
  readonly liveStats: Effect.Effect<TaskStats>
  /** Live tasks with a deadline before `at`. */
  readonly overdue: (at: Timestamp, limit: number) => Effect.Effect<ReadonlyArray<TaskHead>>
  /** Processing tasks whose token was revoked in the last `within`, or at any time without it. */
  readonly revoked: (
    within: Duration.Duration | undefined,
    limit: number
  ) => Effect.Effect<ReadonlyArray<TaskHead>>
  /** Claims due stops: counts the attempt and makes them due again after `lease`, in case this node dies. */
  readonly claimStops: (
    at: Timestamp,
    lease: Duration.Duration,
    limit: number
  ) => Effect.Effect<ReadonlyArray<PendingStop>>
  readonly recordStop: (runId: RunId) => Effect.Effect<void>
  readonly postponeStop: (runId: RunId, until: Timestamp) => Effect.Effect<void>
}>()("async-task-service/services/store/TaskRepository") {}
