/** The store of schedules and their runs. A change is guarded by the revision or the moment that its reader saw: of two one wins. */
import { Context, type Duration, type Effect, Schema } from "effect"
import type { StoreUnavailable } from "../../domain/StoreUnavailable.ts"
import { TaskId } from "../../domain/Task.ts"
import { Timestamp } from "../../domain/Timestamp.ts"
import type { RequestKey } from "../store/tasks/TaskStore.ts"
import type { Outcome, Run, Schedule, ScheduleId, State } from "./Schedule.ts"

/** Why a schedule is not saved: `Revoked` when the authorizing token is revoked. */
export type Refusal = { readonly _tag: "TooMany" | "KeyTaken" | "Revoked" }

export type Inserted =
  | Refusal
  | { readonly _tag: "Saved" }
  | { readonly _tag: "Replayed"; readonly id: ScheduleId }
  | { readonly _tag: "IdempotencyKeyReused" }

export interface SchedulePage {
  readonly schedules: ReadonlyArray<Schedule>
  readonly total: number
}

/** A moment of a schedule that has come, as the sweep saw it. */
export type DueSchedule = Pick<Schedule, "id" | "definition"> & { readonly nextAt: Timestamp }

/** The claim of the moment `due`. `run` becomes a run that this node works off. */
export interface FiringClaim {
  readonly id: ScheduleId
  readonly due: Timestamp
  readonly next: Timestamp | null
  /** The next moment with the spread. */
  readonly nextDue: Timestamp | null
  readonly last: Timestamp
  readonly run: Timestamp | undefined
  readonly missed: { readonly from: Timestamp; readonly count: number } | undefined
}

/** A run that this node works off, until its lease ends. */
export interface PendingRun {
  readonly schedule: Schedule
  readonly scheduledFor: Timestamp
  /** From 1. */
  readonly attempt: number
  /** The error of the last attempt. */
  readonly error: string | null
  /** Whether the task before is still active. */
  readonly isOverlapping: boolean
}

/** The outcome of an attempt. A waiting run is tried again at `tryAt`. */
export interface Attempted {
  readonly scheduleId: ScheduleId
  readonly scheduledFor: Timestamp
  readonly outcome: Outcome
  readonly startedAt: Timestamp | null
  readonly taskId: TaskId | null
  readonly error: string | null
  readonly tryAt: Timestamp | null
  /** Whether a token was lacking; null when none was needed. */
  readonly lacksToken: boolean | null
}

export const ScheduledTask = Schema.Struct({ taskId: TaskId, scheduleId: Schema.String, scheduledFor: Timestamp })
export type ScheduledTask = typeof ScheduledTask.Type

export class SchedulesStore extends Context.Service<SchedulesStore, {
  readonly insert: (schedule: Schedule, key?: RequestKey) => Effect.Effect<Inserted, StoreUnavailable>
  /** Replaces a schedule whose revision is still `revision`; `Stale` otherwise. */
  readonly save: (
    schedule: Schedule,
    revision: number
  ) => Effect.Effect<Refusal | { readonly _tag: "Saved" | "Stale" }, StoreUnavailable>
  readonly get: (id: ScheduleId) => Effect.Effect<Schedule | undefined, StoreUnavailable>
  readonly byKey: (sub: string, key: string) => Effect.Effect<Schedule | undefined, StoreUnavailable>
  /** Newest first. No states mean all. */
  readonly list: (
    sub: string,
    states: ReadonlyArray<State>,
    page: number,
    perPage: number
  ) => Effect.Effect<SchedulePage, StoreUnavailable>
  readonly delete: (id: ScheduleId) => Effect.Effect<void, StoreUnavailable>
  /** Newest first. */
  readonly runs: (
    id: ScheduleId,
    page: number,
    perPage: number
  ) => Effect.Effect<{ readonly runs: ReadonlyArray<Run>; readonly total: number }, StoreUnavailable>
  /** Records a task that its user triggered, once. */
  readonly addTriggered: (id: ScheduleId, at: Timestamp, taskId: TaskId) => Effect.Effect<void, StoreUnavailable>
  /** The newest tasks of a schedule of `sub`. */
  readonly tasksOf: (sub: string | null, id: ScheduleId) => Effect.Effect<ReadonlyArray<TaskId>, StoreUnavailable>
  /** The schedules of those tasks that have one. */
  readonly ofTasks: (taskIds: ReadonlyArray<TaskId>) => Effect.Effect<ReadonlyArray<ScheduledTask>, StoreUnavailable>

  /** Active schedules whose moment has come since `from`, the earliest first. */
  readonly due: (
    at: Timestamp,
    limit: number,
    from?: Timestamp
  ) => Effect.Effect<ReadonlyArray<DueSchedule>, StoreUnavailable>
  /** Claims moments that are still due and inserts their runs, in one statement. Returns the runs for this node. */
  readonly claim: (
    claims: ReadonlyArray<FiringClaim>,
    at: Timestamp,
    lease: Duration.Duration
  ) => Effect.Effect<ReadonlyArray<PendingRun>, StoreUnavailable>
  /** Takes runs over whose lease or pause has ended since `from`. */
  readonly takeOver: (
    at: Timestamp,
    lease: Duration.Duration,
    limit: number,
    from?: Timestamp
  ) => Effect.Effect<ReadonlyArray<PendingRun>, StoreUnavailable>
  /** The first moment since `from` at which something is due. */
  readonly nextDue: (from?: Timestamp) => Effect.Effect<Timestamp | undefined, StoreUnavailable>
  /**
   * Records attempts of runs that are still due or waiting. It also remembers the last task and pauses schedules whose runs lack a
   * token too often.
   */
  readonly record: (attempted: ReadonlyArray<Attempted>, at: Timestamp) => Effect.Effect<void, StoreUnavailable>
  /** Counts tasks that ended, and pauses schedules whose tasks failed too often. Returns the ids of the paused ones. */
  readonly settle: (at: Timestamp, limit: number) => Effect.Effect<ReadonlyArray<ScheduleId>, StoreUnavailable>
  /** Deletes schedules that ended and runs that are older than `before`, and runs beyond the newest of a schedule. */
  readonly deleteExpired: (before: Timestamp, limit: number) => Effect.Effect<number, StoreUnavailable>
}>()("async-task-service/services/schedules/SchedulesStore") {}
