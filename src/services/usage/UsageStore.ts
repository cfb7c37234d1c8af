/**
 * The store of usage. A trigger on the core's events writes an outbox row for each interrupt and end; booking adds them to the sums by hour and deletes them in
 * the same statement, so that each counts once. A read adds what is not booked yet.
 */
import { Context, type Effect, Schema } from "effect"
import type { StoreUnavailable } from "../../domain/StoreUnavailable.ts"
import type { TaskId } from "../../domain/Task.ts"
import type { Timestamp } from "../../domain/Timestamp.ts"
import type { Prices } from "./Prices.ts"
import type { Sums, TaskUsage, UsageQuery } from "./Usage.ts"

/** The amounts that one booking added, by assistant and model. */
export const Booked = Schema.Struct({
  assistantId: Schema.Finite,
  model: Schema.NullOr(Schema.String),
  rows: Schema.Int,
  inputTokens: Schema.Int,
  outputTokens: Schema.Int
})
export interface Booked extends Schema.Schema.Type<typeof Booked> {}

export class UsageStore extends Context.Service<UsageStore, {
  /** Usage from a moment on has these prices. */
  readonly setPrices: (prices: Prices | undefined, at: Timestamp) => Effect.Effect<void, StoreUnavailable>
  /** Books at most `limit` rows of the outbox that are not older than `from`; none while another node books. */
  readonly book: (limit: number, from?: Timestamp) => Effect.Effect<ReadonlyArray<Booked>, StoreUnavailable>
  /** Without a limit at most one bucket more than `limits.buckets`. The totals are those of all buckets. */
  readonly read: (query: UsageQuery) => Effect.Effect<Sums, StoreUnavailable>
  /** Null until something was booked of a task that lasts. */
  readonly ofTask: (uuid: TaskId) => Effect.Effect<TaskUsage | null, StoreUnavailable>
  readonly erase: (sub: string) => Effect.Effect<void, StoreUnavailable>
  /** Deletes at most `limit` sums of hours that began before a moment, and counts them. */
  readonly deleteBefore: (before: Timestamp, limit: number) => Effect.Effect<number, StoreUnavailable>
}>()("async-task-service/services/usage/UsageStore") {}
