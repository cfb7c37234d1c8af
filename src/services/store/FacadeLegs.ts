/**
 * The store of legs. A leg of a task lasts from a dispatch to the interrupt or end after it; its number is the count of
 * `ToolResultsSubmitted` before it. A leg keeps what its protocol must return later and the task does not keep.
 */
import { Context, type Effect, Schema } from "effect"
import type { StoreUnavailable } from "../../domain/StoreUnavailable.ts"
import type { TaskId } from "../../domain/Task.ts"
import { Timestamp } from "../../domain/Timestamp.ts"

export interface NewLeg {
  readonly taskId: TaskId
  readonly leg: number
  /** JSON of the protocol; at most `Limits.keptRequestBytes` bytes. */
  readonly request: string
  readonly createdAt: Timestamp
}

/** The latest stored leg up to the requested one, and the progress of its task. */
export const FoundLeg = Schema.Struct({
  leg: Schema.Int,
  request: Schema.String,
  /** Null until the leg is frozen. */
  output: Schema.NullOr(Schema.String),
  createdAt: Timestamp,
  /** The number of the task's current leg. */
  current: Schema.Int,
  /** Whether the core reported a turn in the current leg. Until then the task still has the turn of the previous leg. */
  hasTurn: Schema.Boolean
})
export type FoundLeg = typeof FoundLeg.Type

/** Events of the core that bring a turn. */
export const turnEvents = ["Progressed", "Interrupted", "Completed"] as const

export class FacadeLegs extends Context.Service<FacadeLegs, {
  /** Stores a leg, unless it is stored already. */
  readonly add: (leg: NewLeg) => Effect.Effect<void, StoreUnavailable>
  /** Stores the output of an interrupted leg, before its results are submitted. */
  readonly freeze: (taskId: TaskId, leg: number, output: string) => Effect.Effect<void, StoreUnavailable>
  /** Undefined when no leg up to `leg` is stored. */
  readonly find: (taskId: TaskId, leg: number) => Effect.Effect<FoundLeg | undefined, StoreUnavailable>
}>()("async-task-service/services/store/FacadeLegs") {}
