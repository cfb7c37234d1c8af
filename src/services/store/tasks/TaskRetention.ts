/** Deletes ended tasks, and expired rows in batches. The batches return the number of tasks or keys that they deleted. */
import { Context, type Effect } from "effect"
import type { StoreUnavailable } from "../../../domain/StoreUnavailable.ts"
import type { TaskId } from "../../../domain/Task.ts"
import type { Timestamp } from "../../../domain/Timestamp.ts"

export class TaskRetention extends Context.Service<TaskRetention, {
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
}>()("async-task-service/services/store/tasks/TaskRetention") {}
