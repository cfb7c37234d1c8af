/** Searches of all tasks, for the sweep and for statistics. */
import { Context, type Duration, type Effect, Schema } from "effect"
import type { StoreUnavailable } from "../../../domain/StoreUnavailable.ts"
import { type TaskHead, type TaskId, TaskStatus } from "../../../domain/Task.ts"
import type { TaskShard } from "../../../domain/TaskShard.ts"
import { Timestamp } from "../../../domain/Timestamp.ts"

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

export class TaskScans extends Context.Service<TaskScans, {
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
}>()("async-task-service/services/store/tasks/TaskScans") {}
