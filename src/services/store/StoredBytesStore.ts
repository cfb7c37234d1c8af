/** The bytes of requests and turns that each user keeps, counted in the background. */
import { Context, type Effect, Schema } from "effect"
import type { StoreUnavailable } from "../../domain/StoreUnavailable.ts"
import { Timestamp } from "../../domain/Timestamp.ts"

/** A count of a user's tasks from the newest on, so far. */
export interface Count {
  readonly sub: string
  readonly bytes: number
  readonly tasks: number
  /** The last task that was counted, when others may follow it. */
  readonly last: { readonly at: Timestamp; readonly uuid: string } | null
}

export const UserStorage = Schema.Struct({
  sub: Schema.String,
  bytes: Schema.Finite,
  tasks: Schema.Int,
  countedAt: Timestamp
})
export type UserStorage = typeof UserStorage.Type

export class StoredBytesStore extends Context.Service<StoredBytesStore, {
  /** Makes users due who created tasks since a moment, one with many tasks `millisPerTask` for each after the last count. */
  readonly noteActive: (
    since: Timestamp,
    at: Timestamp,
    millisPerTask: number
  ) => Effect.Effect<void, StoreUnavailable>
  /** Users who are due since `from`; no other node gets them until `lease`. */
  readonly claim: (
    at: Timestamp,
    lease: Timestamp,
    limit: number,
    from?: Timestamp
  ) => Effect.Effect<ReadonlyArray<string>, StoreUnavailable>
  /** Begins or continues the counts of users, in one statement over a bounded number of tasks. */
  readonly count: (
    counts: ReadonlyArray<Pick<Count, "sub"> | Count>
  ) => Effect.Effect<ReadonlyArray<Count>, StoreUnavailable>
  /** Records counts in one statement. A user is due again at `next`, or earlier if noted since the claim. */
  readonly record: (
    counts: ReadonlyArray<UserStorage & { readonly next: Timestamp }>,
    lease: Timestamp
  ) => Effect.Effect<void, StoreUnavailable>
  /** The largest first. */
  readonly largest: (limit: number) => Effect.Effect<ReadonlyArray<UserStorage>, StoreUnavailable>
  /** Users who keep more than `bytes`, the largest first. */
  readonly above: (bytes: number, limit: number) => Effect.Effect<ReadonlyArray<string>, StoreUnavailable>
}>()("async-task-service/services/store/StoredBytesStore") {}
