/** The outbox of stop requests to the core. `TaskWrites` inserts one in the statement that ends a run. */
import { Context, type Duration, type Effect, Schema } from "effect"
import type { StoreUnavailable } from "../../../domain/StoreUnavailable.ts"
import { RunId, TaskId } from "../../../domain/Task.ts"
import { Timestamp } from "../../../domain/Timestamp.ts"

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

export class StopOutbox extends Context.Service<StopOutbox, {
  /** Claims stops that are due since `from`: counts the attempt and makes them due again after `lease`, in case this node dies. */
  readonly claim: (
    at: Timestamp,
    lease: Duration.Duration,
    limit: number,
    from?: Timestamp
  ) => Effect.Effect<ReadonlyArray<PendingStop>, StoreUnavailable>
  /** Deletes a delivered stop. */
  readonly record: (runId: RunId) => Effect.Effect<void, StoreUnavailable>
  readonly postpone: (runId: RunId, until: Timestamp) => Effect.Effect<void, StoreUnavailable>
}>()("async-task-service/services/store/tasks/StopOutbox") {}
