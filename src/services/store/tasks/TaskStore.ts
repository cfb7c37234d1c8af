/**
 * The store of tasks: their rows, turns, events, requests, metadata, idempotency keys and the outbox of stops. A change is one guarded
 * statement: of two racing events one wins, and the other gets the current head as a value. The same statement inserts the event row and
 * the outbox rows (stop, webhook). `Changes` are published after it.
 */
import { Context, type Duration, type Effect, type Option, Record, Schema } from "effect"
import type { OpaqueJson } from "../../../domain/json/OpaqueJson.ts"
import type { Metadata } from "../../../domain/Metadata.ts"
import type { Principal } from "../../../domain/Principal.ts"
import type { StoredRequest } from "../../../domain/StoredRequest.ts"
import type { StoreUnavailable } from "../../../domain/StoreUnavailable.ts"
import {
  type Room,
  RunId,
  type Task,
  TaskEvent,
  type TaskHead,
  TaskId,
  TaskStatus,
  type TaskSummary
} from "../../../domain/Task.ts"
import type { IdempotencyKeyReused, TooManyActiveTasks } from "../../../domain/TaskErrors.ts"
import type { KeptFields } from "../../../domain/TaskRequest.ts"
import type { TaskShard } from "../../../domain/TaskShard.ts"
import { Timestamp } from "../../../domain/Timestamp.ts"
import type { RunLimits } from "../queue/RunQueue.ts"

/** A user's idempotency key for one request. The statement of the change also stores it. */
export interface RequestKey {
  readonly value: string
  /** Distinguishes requests: it covers operation, task and body. */
  readonly fingerprint: string
  /** How long a new task keeps the key; `Limits.idempotencyKeyTtl` if absent. */
  readonly keptFor?: Duration.Duration
}

export interface NewTask extends KeptFields {
  readonly uuid: TaskId
  readonly principal: Principal
  readonly runId: RunId
  /** See `CallbackFormats`. */
  readonly callbackFormat: string | null
  /** Slots of the user that have to be left free. */
  readonly sparedSlots?: number
  readonly createdAt: Timestamp
  readonly deadline: Timestamp
  /** Null when the dispatch waits for a lane: the deadline is set at the first attempt. */
  readonly acceptanceDeadline: Timestamp | null
  /** See `StoredRequest`. */
  readonly request: OpaqueJson
  /** Encrypted. */
  readonly userToken: string
  /** Encrypted. */
  readonly callbackSecret: string | null
}

/** How a new run enters the queue. */
export interface QueueEntry {
  /** Whether it waits even where no limit holds it: this node knows that the core has no room, or that others wait. */
  readonly waits: boolean
  readonly limits: RunLimits
}

/** The run of a core that needs no room. */
export const noQueue: QueueEntry = { waits: false, limits: { runs: null, runsPerAssistant: null } }

/** The created task; on a replay, the task that the first request created. */
export interface Created {
  readonly taskId: TaskId
  readonly isReplay: boolean
  /** The place of the run. The acceptance deadline of one that waits is null. */
  readonly room: Room | null
}

/** Fences an event to its run and deduplicates it by an id, if it has one. Absent for events that do not come from a run. */
export interface Fence {
  readonly runId: RunId
  readonly coreEventId?: string
  /** Whether a pending task is accepted first, as a change of its own in the same transaction. */
  readonly recordsAcceptance?: boolean
}

export type Commit =
  /** `recordedAcceptance`: the commit also accepted the task, as a change before the event. */
  | { readonly _tag: "Applied"; readonly head: TaskHead; readonly recordedAcceptance: boolean }
  /** Nothing changed: the event is a repetition, or is illegal in the task's status. */
  | { readonly _tag: "NoEffect"; readonly head: TaskHead }
  /** Nothing changed: the run is not the task's current run, or the task has ended. */
  | { readonly _tag: "Superseded"; readonly head: TaskHead }
  /** Nothing changed: the run's token is revoked. */
  | { readonly _tag: "Revoked"; readonly head: TaskHead }
  | { readonly _tag: "Unknown" }

/** Conditions of a list, each null for any task. */
export interface Chosen {
  readonly assistantId: number | null
  /** When it was created: from a moment on, and before another one. */
  readonly from: Timestamp | null
  readonly to: Timestamp | null
}

export interface TaskFilter extends Partial<Chosen> {
  readonly sub: string
  /** Empty means all statuses. */
  readonly statuses: ReadonlyArray<TaskStatus>
  /** Pairs that a task must have. */
  readonly metadata?: Metadata | null
  /** Only these of the user's tasks; null for all. */
  readonly uuids?: ReadonlyArray<TaskId> | null
  readonly page: number
  readonly perPage: number
}

/** A search among the tasks that are chosen. */
export interface TaskSearched extends Chosen {
  /** Empty means all statuses. */
  readonly statuses: ReadonlyArray<TaskStatus>
  /** In the id, metadata or excerpt. */
  readonly text: string
}

export interface TaskPage {
  readonly tasks: ReadonlyArray<TaskSummary>
  readonly total: number
}

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

/** A task whose turn was read only if it is small. */
export interface TaskOutline extends Task {
  /** Bytes of the turn, also of a large one, for which `turn` is null. */
  readonly turnBytes: number
}

/** One change of a task, for its event stream. */
export const RecordedEvent = Schema.Struct({
  revision: Schema.Int,
  type: Schema.Literals(["Created", ...Record.keys(TaskEvent.cases)]),
  /** The status after the change. */
  status: TaskStatus,
  occurredAt: Timestamp,
  /** See `TaskChange`; null for the creation and what the core reported. */
  author: Schema.NullOr(Schema.String)
})
export type RecordedEvent = typeof RecordedEvent.Type

/** A stored idempotency key: the request's fingerprint and the task that the request created or changed. */
export const UsedKey = Schema.Struct({ fingerprint: Schema.String, taskId: TaskId })
export type UsedKey = typeof UsedKey.Type

/** The number of tasks by status and the earliest deadline of live tasks. */
export interface TaskStats {
  readonly counts: Readonly<Record<TaskStatus, number>>
  readonly nextDeadline: Timestamp | null
}

/** Statistics of one status. `next` is the earliest deadline of its tasks, null if they have ended. */
export const StatusStats = Schema.Struct({ status: TaskStatus, count: Schema.Int, next: Schema.NullOr(Timestamp) })

export const sumStats = (parts: Iterable<typeof StatusStats.Type>): TaskStats => {
  const counts = { pending: 0, processing: 0, interrupted: 0, completed: 0, failed: 0, canceled: 0 }
  let nextDeadline: Timestamp | null = null
  for (const { count, next, status } of parts) {
    counts[status] += count
    if (next !== null && (nextDeadline === null || next < nextDeadline)) nextDeadline = next
  }
  return { counts, nextDeadline }
}

type Heads = Effect.Effect<ReadonlyArray<TaskHead>, StoreUnavailable>

/** A keyset page of the tasks of `shards`, or of all shards, in the order of their ids. */
export type Page = [after: TaskId | undefined, limit: number, shards?: ReadonlyArray<TaskShard>]

export const PendingStop = Schema.Struct({
  runId: RunId,
  taskId: TaskId,
  reason: Schema.String,
  /** This attempt's number, from 1. */
  attempt: Schema.Int,
  /** The end of the run; null when its task has been deleted since. */
  endedAt: Schema.NullOr(Timestamp)
})
export type PendingStop = typeof PendingStop.Type

export class TaskStore extends Context.Service<TaskStore, {
  // Changes.
  /**
   * Checks the key and the active limit and inserts, atomically per user and in one round trip. `maxActive` holds for users without a
   * limit of their own.
   */
  readonly create: (
    task: NewTask,
    maxActive: number,
    key?: RequestKey,
    entry?: QueueEntry
  ) => Effect.Effect<Created, TooManyActiveTasks | IdempotencyKeyReused | StoreUnavailable>
  /**
   * Applies `event` if the transition table allows it and stores the key, in one statement. `NoEffect` too when another request has
   * used the key. A run that begins is put into the queue if it `waits` or its assistant has a limit.
   */
  readonly commit: (
    uuid: TaskId,
    event: TaskEvent,
    at: Timestamp,
    fence?: Fence,
    key?: RequestKey & { readonly sub: string },
    waits?: boolean
  ) => Effect.Effect<Commit, StoreUnavailable>
  /** Cancels all interrupted tasks of a user in one statement. */
  readonly cancelInterrupted: (
    sub: string,
    at: Timestamp,
    author?: string
  ) => Effect.Effect<ReadonlyArray<TaskHead>, StoreUnavailable>
  /**
   * Claims silent runs in order to dispatch them again, for this node alone, and counts the dispatch. A run is not claimed when its
   * task has changed, or any node has recorded an event of it or claimed it, since its head was read.
   */
  readonly claimSilent: (runs: ReadonlyArray<TaskHead>) => Effect.Effect<ReadonlyArray<TaskHead>, StoreUnavailable>
  /**
   * Sets the acceptance deadline of a pending run whose dispatch had to wait, unless it has one or waits again. Returns the present head;
   * undefined for a task that was deleted.
   */
  readonly startAcceptance: (
    uuid: TaskId,
    runId: RunId,
    deadline: Timestamp
  ) => Effect.Effect<TaskHead | undefined, StoreUnavailable>

  // Reads of known tasks, for requests and actors.
  /** The caller bounds the memory of large turns, here and of `turn`. */
  readonly get: (uuid: TaskId) => Effect.Effect<Option.Option<Task>, StoreUnavailable>
  readonly outline: (uuid: TaskId) => Effect.Effect<Option.Option<TaskOutline>, StoreUnavailable>
  /** The turn of a task that has one. */
  readonly turn: (uuid: TaskId) => Effect.Effect<Option.Option<OpaqueJson>, StoreUnavailable>
  /** The heads of those `uuids` that exist. */
  readonly heads: (uuids: ReadonlyArray<TaskId>) => Effect.Effect<ReadonlyArray<TaskHead>, StoreUnavailable>
  /** Newest first. */
  readonly list: (filter: TaskFilter) => Effect.Effect<TaskPage, StoreUnavailable>
  /** The metadata of those `uuids` that are tasks of `sub` and have metadata. */
  readonly metadata: (
    sub: string,
    uuids: ReadonlyArray<TaskId>
  ) => Effect.Effect<ReadonlyMap<TaskId, Metadata>, StoreUnavailable>
  /** The beginning of what those `uuids` ask that are tasks of `sub`, see `Excerpt`. */
  readonly excerpts: (
    sub: string,
    uuids: ReadonlyArray<TaskId>
  ) => Effect.Effect<ReadonlyMap<TaskId, string>, StoreUnavailable>
  /** The assistants of those `uuids` that are tasks of `sub`. */
  readonly assistants: (
    sub: string,
    uuids: ReadonlyArray<TaskId>
  ) => Effect.Effect<ReadonlyMap<TaskId, number | null>, StoreUnavailable>
  /** Those of the newest tasks of `sub` in the range that match, a bounded number. */
  readonly search: (sub: string, wanted: TaskSearched) => Effect.Effect<ReadonlyArray<TaskId>, StoreUnavailable>
  /** The request of a task, unless it is larger than `Limits.keptRequestBytes` or was deleted at the end. */
  readonly storedRequest: (uuid: TaskId) => Effect.Effect<Option.Option<StoredRequest>, StoreUnavailable>
  /** The events of a task after `revision`, in order. The creation is revision 0. */
  readonly eventsAfter: (
    uuid: TaskId,
    revision: number,
    limit: number
  ) => Effect.Effect<ReadonlyArray<RecordedEvent>, StoreUnavailable>
  /** The run of a task that is pending or processing. */
  readonly pendingRun: (uuid: TaskId) => Effect.Effect<Option.Option<PendingRun>, StoreUnavailable>
  /** A user's idempotency key, unless it has expired. */
  readonly usedKey: (
    sub: string,
    key: string,
    at: Timestamp
  ) => Effect.Effect<Option.Option<UsedKey>, StoreUnavailable>

  // Searches of all tasks, for the sweep and for statistics.
  /** A page of pending and processing tasks whose run does not wait in the queue. */
  readonly running: (...page: Page) => Heads
  /** A page of live tasks with a time limit after `from`, until `to`. */
  readonly dueWithin: (from: Timestamp, to: Timestamp, ...page: Page) => Heads
  /** The earliest time limit of the live tasks of `shards`, or of all shards. */
  readonly nextDeadline: (shards?: ReadonlyArray<TaskShard>) => Effect.Effect<Timestamp | null, StoreUnavailable>
  /** Live tasks with a deadline before `at`, but not before `from`. */
  readonly overdue: (at: Timestamp, limit: number, from?: Timestamp) => Heads
  /** Processing tasks, and those whose run waits in the queue, whose token was revoked in the last `within`, or at any time without it. */
  readonly revoked: (within: Duration.Duration | undefined, limit: number) => Heads
  /** Scans live tasks only; the other counts are zero. */
  readonly liveStats: Effect.Effect<TaskStats, StoreUnavailable>

  // Deletions of ended tasks, and of expired rows in batches, which return the number of tasks or keys that they deleted.
  /**
   * Deletes a task that has ended; its pending webhooks are not sent, its pending stops are. Its idempotency keys remain until they
   * expire, so that a repeated create does not create another task. False if there is no such ended task.
   */
  readonly deleteTask: (uuid: TaskId) => Effect.Effect<boolean, StoreUnavailable>
  /** Tasks that ended since `from`, before `before`, and have no pending webhook, with all their rows. */
  readonly deleteEnded: (before: Timestamp, limit: number, from?: Timestamp) => Effect.Effect<number, StoreUnavailable>
  /** Proofs of webhook origins that were stored before `before`. */
  readonly deleteOrigins: (before: Timestamp, limit: number) => Effect.Effect<number, StoreUnavailable>
  /** Idempotency keys that expired since `from`, before `at`. */
  readonly deleteExpiredKeys: (
    at: Timestamp,
    limit: number,
    from?: Timestamp
  ) => Effect.Effect<number, StoreUnavailable>

  // The outbox of stops: a change that ends a run inserts one.
  /** Claims stops that are due since `from`: counts the attempt and makes them due again after `lease`, in case this node dies. */
  readonly claimStops: (
    at: Timestamp,
    lease: Duration.Duration,
    limit: number,
    from?: Timestamp
  ) => Effect.Effect<ReadonlyArray<PendingStop>, StoreUnavailable>
  /** Deletes a delivered one. */
  readonly deleteStop: (runId: RunId) => Effect.Effect<void, StoreUnavailable>
  readonly postponeStop: (runId: RunId, until: Timestamp) => Effect.Effect<void, StoreUnavailable>
}>()("async-task-service/services/store/tasks/TaskStore") {}

/** Members of the store that one file has. */
export const partOf = <Name extends keyof TaskStore["Service"]>(part: Pick<TaskStore["Service"], Name>) => part
