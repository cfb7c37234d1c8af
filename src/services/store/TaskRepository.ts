/**
 * The store of tasks. Every change of a task is one guarded statement: of two racing triggers one wins, and the other
 * learns where the task stands, as a value. What a change owes (an event row, a stop to the core, a webhook) is written with
 * it, and `TaskNotifications` are published after it.
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

/** A user's name for one request; it is claimed in the same breath as what the request does. */
export interface IdempotencyClaim {
  readonly key: string
  /** Tells this request from any other of the user: what it does, to which task, with which body. */
  readonly fingerprint: string
}

/** The claim that stands: which request it is for, and the task that it made or changed. */
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
  /** Null when the hand-over has to wait for its turn: the clock starts with the first attempt. */
  readonly acceptanceDeadline: Timestamp | null
  /** The `RunRequest`, encoded. */
  readonly request: OpaqueJson
  /** Encrypted. */
  readonly userToken: string
  /** Encrypted. */
  readonly callbackSecret: string | null
}

/** The task that was created, or the one that the same request created before. */
export interface Created {
  readonly taskId: TaskId
  readonly isReplay: boolean
}

export interface TaskFilter {
  readonly sub: string
  /** Empty means every status. */
  readonly statuses: ReadonlyArray<TaskStatus>
  readonly page: number
  readonly perPage: number
}

export interface TaskPage {
  readonly tasks: ReadonlyArray<TaskSummary>
  readonly total: number
}

/** Which run an event speaks of, and the core's own id of that event. Both absent for what does not come from a run. */
export interface Fence {
  readonly runId: RunId
  readonly coreEventId?: string
}

export type Commit =
  | { readonly _tag: "Applied"; readonly head: TaskHead }
  /** Nothing changed: the event was seen before, or the task's present status has no use for it. */
  | { readonly _tag: "NoEffect"; readonly head: TaskHead }
  /** Nothing changed: the run is not the task's current one, or the task has ended. */
  | { readonly _tag: "Superseded"; readonly head: TaskHead }
  /** Nothing changed: the event is of a run whose token has been revoked. */
  | { readonly _tag: "Revoked"; readonly head: TaskHead }
  | { readonly _tag: "Unknown" }

/** What a hand-over needs beyond the head. */
export interface PendingRun {
  readonly principal: Principal
  readonly runId: RunId
  readonly deadline: Timestamp
  readonly request: OpaqueJson
  /** Encrypted. */
  readonly userToken: string
  /** Present on a leg that resumes an interrupted task. */
  readonly resume: { readonly state: OpaqueJson | null; readonly results: OpaqueJson } | null
}

/** One change of a task, as it is kept for those who ask what happened (CONTRACT 2, "events"). */
export const RecordedEvent = Schema.Struct({
  revision: Schema.Int,
  type: Schema.Literals(["Created", ...Object.keys(TaskEvent.cases) as ReadonlyArray<TaskEventTag>]),
  /** The status that it led to. */
  status: TaskStatus,
  occurredAt: Timestamp
})
export type RecordedEvent = typeof RecordedEvent.Type

/** How many tasks are in each status, and when the first of the live ones' clocks runs out. */
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
  /** Looks for the claim, checks the limit and inserts, atomically per user and in one round trip. */
  readonly create: (
    task: NewTask,
    maxActive: number,
    claim?: IdempotencyClaim
  ) => Effect.Effect<Created, TooManyActiveTasks | IdempotencyKeyReused>
  readonly get: (uuid: TaskId) => Effect.Effect<Option.Option<Task>>
  /** Where tasks stand, for those of `uuids` that exist. */
  readonly heads: (uuids: ReadonlyArray<TaskId>) => Effect.Effect<ReadonlyArray<TaskHead>>
  /** What happened to a task after `revision`, in order; its creation is revision 0. */
  readonly eventsAfter: (
    uuid: TaskId,
    revision: number,
    limit: number
  ) => Effect.Effect<ReadonlyArray<RecordedEvent>>
  /** Newest first. */
  readonly list: (filter: TaskFilter) => Effect.Effect<TaskPage>
  /** Applies `event` where the transition table allows it, in one statement; the claim is made with it or not at all. */
  readonly commit: (
    uuid: TaskId,
    event: TaskEvent,
    at: Timestamp,
    fence?: Fence,
    claim?: IdempotencyClaim & { readonly sub: string }
  ) => Effect.Effect<Commit>
  /** What a user's key stands for, unless that has expired. */
  readonly claimed: (sub: string, key: string, at: Timestamp) => Effect.Effect<Option.Option<Claimed>>
  /** Forgets claims that expired before `at`; returns how many. */
  readonly deleteExpiredKeys: (at: Timestamp, limit: number) => Effect.Effect<number>
  /** Deletes tasks that ended before `before`, with all that is theirs; returns how many. Not while a webhook is owed. */
  readonly deleteEnded: (before: Timestamp, limit: number) => Effect.Effect<number>
  /** Cancels all interrupted tasks of a user in one statement. */
  readonly cancelInterrupted: (sub: string, at: Timestamp) => Effect.Effect<ReadonlyArray<TaskHead>>
  /** Starts the acceptance clock of a pending run whose hand-over had to wait. */
  readonly startAcceptanceClock: (uuid: TaskId, runId: RunId, deadline: Timestamp) => Effect.Effect<void>
  readonly pendingRun: (uuid: TaskId) => Effect.Effect<Option.Option<PendingRun>>
  /** Live tasks of the `shards`, or of all, after `after` in the order of their ids, so that they are read page by page. */
  readonly live: (
    after: TaskId | undefined,
    limit: number,
    shards?: ReadonlyArray<TaskShard>
  ) => Effect.Effect<ReadonlyArray<TaskHead>>
  /** It looks at every task. */
  readonly stats: Effect.Effect<TaskStats>
  /** The same of live tasks alone: the other counts are zero. */
  readonly liveStats: Effect.Effect<TaskStats>
  /** Live tasks one of whose clocks ran out before `at`. */
  readonly overdue: (at: Timestamp, limit: number) => Effect.Effect<ReadonlyArray<TaskHead>>
  /** Processing tasks whose token was revoked in the last `within`, or ever. */
  readonly revoked: (
    within: Duration.Duration | undefined,
    limit: number
  ) => Effect.Effect<ReadonlyArray<TaskHead>>
  /** Takes stops that are due, counts the attempt, and puts their next one `lease` later in case this one is lost. */
  readonly claimStops: (
    at: Timestamp,
    lease: Duration.Duration,
    limit: number
  ) => Effect.Effect<ReadonlyArray<PendingStop>>
  readonly recordStop: (runId: RunId) => Effect.Effect<void>
  readonly postponeStop: (runId: RunId, until: Timestamp) => Effect.Effect<void>
}>()("async-task-service/services/store/TaskRepository") {}
