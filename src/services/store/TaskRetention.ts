/** Deletes expired rows in batches. Each method returns the number of tasks or keys that it deleted. */
import { Context, type Effect } from "effect"
import type { StoreUnavailable } from "../../domain/StoreUnavailable.ts"
import type { Timestamp } from "../../domain/Timestamp.ts"

export class TaskRetention extends Context.Service<TaskRetention, {
  /** Tasks that ended before `before` and have no pending webhook, with all their rows. */
  readonly deleteEnded: (before: Timestamp, limit: number) => Effect.Effect<number, StoreUnavailable>
  /** Idempotency keys that expired before `at`. */
  readonly deleteExpiredKeys: (at: Timestamp, limit: number) => Effect.Effect<number, StoreUnavailable>
}>()("async-task-service/services/store/TaskRetention") {}
