/** Reads of known tasks, for requests and actors. */
import { Context, type Effect, type Option, Record, Schema } from "effect"
import type { OpaqueJson } from "../../../domain/json/OpaqueJson.ts"
import type { Metadata } from "../../../domain/Metadata.ts"
import type { Principal } from "../../../domain/Principal.ts"
import type { StoredRequest } from "../../../domain/StoredRequest.ts"
import type { StoreUnavailable } from "../../../domain/StoreUnavailable.ts"
import {
  type RunId,
  type Task,
  TaskEvent,
  type TaskHead,
  TaskId,
  TaskStatus,
  type TaskSummary
} from "../../../domain/Task.ts"
import { Timestamp } from "../../../domain/Timestamp.ts"

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
  actor: Schema.NullOr(Schema.String)
})
export type RecordedEvent = typeof RecordedEvent.Type

/** A stored idempotency claim: the request's fingerprint and the task that the request created or changed. */
export const Claimed = Schema.Struct({ fingerprint: Schema.String, taskId: TaskId })
export type Claimed = typeof Claimed.Type

export class TaskReads extends Context.Service<TaskReads, {
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
  /** Of the newest tasks of `sub` in the range those that match, a bounded number. */
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
  /** The unexpired claim of a user's idempotency key. */
  readonly claimed: (
    sub: string,
    key: string,
    at: Timestamp
  ) => Effect.Effect<Option.Option<Claimed>, StoreUnavailable>
}>()("async-task-service/services/store/tasks/TaskReads") {}
