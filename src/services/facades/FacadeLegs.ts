/**
 * The store of legs. A leg of a task lasts from a dispatch to the interrupt or end after it; its number is the count of
 * `ToolResultsSubmitted` before it. A leg keeps what its protocol must return later and the task does not keep.
 */
import { Context, Duration, type Effect, Schema } from "effect"
import type { StoreUnavailable } from "../../domain/StoreUnavailable.ts"
import type { TaskId } from "../../domain/Task.ts"
import { Timestamp } from "../../domain/Timestamp.ts"
import { Tokens } from "../../domain/Usage.ts"

export interface NewLeg {
  readonly taskId: TaskId
  readonly leg: number
  /** JSON of the protocol; at most `Limits.keptRequestBytes` bytes. */
  readonly request: string
  readonly createdAt: Timestamp
  /** If false, the task is deleted `unstoredFor` after its end. */
  readonly isStored: boolean
}

/** The life of a task that is not stored, after its end. */
export const unstoredFor = Duration.hours(1)

/** The latest stored leg up to the requested one, and the progress of its task. */
export const FoundLeg = Schema.Struct({
  leg: Schema.Int,
  request: Schema.String,
  /** Null until the leg is frozen. */
  output: Schema.NullOr(Schema.String),
  /** The task's usage at the end of the leg: null until it is frozen, and when nothing was reported. */
  usage: Schema.NullOr(Schema.fromJsonString(Tokens)),
  /** Its usage before the requested leg, as far as it was kept. */
  usageBefore: Schema.NullOr(Schema.fromJsonString(Tokens)),
  createdAt: Timestamp,
  /** The number of the task's current leg. */
  current: Schema.Int,
  /** The revision since which the task has a turn of the current leg, if any. Until then it has that of the previous leg. */
  turnSince: Schema.NullOr(Schema.Int)
})
export type FoundLeg = typeof FoundLeg.Type

export class FacadeLegs extends Context.Service<FacadeLegs, {
  /** Stores a leg, unless it is stored already or its task is deleted. */
  readonly add: (leg: NewLeg) => Effect.Effect<void, StoreUnavailable>
  /** Stores the output of an interrupted leg and what its task has used, before its results are submitted. */
  readonly freeze: (
    taskId: TaskId,
    leg: number,
    output: string,
    usage: Tokens | null
  ) => Effect.Effect<void, StoreUnavailable>
  /** The number of the leg that each change of a task ended. */
  readonly endedBy: (
    changes: ReadonlyArray<{ readonly uuid: TaskId; readonly revision: number }>
  ) => Effect.Effect<ReadonlyArray<number>, StoreUnavailable>
  /** Tasks that are not stored, ended before `before` and have no pending webhook. */
  readonly unstored: (before: Timestamp, limit: number) => Effect.Effect<ReadonlyArray<TaskId>, StoreUnavailable>
  /** Undefined when no leg up to `leg` is stored. */
  readonly find: (taskId: TaskId, leg: number) => Effect.Effect<FoundLeg | undefined, StoreUnavailable>
}>()("async-task-service/services/facades/FacadeLegs") {}
