/** The bytes of requests and turns that each user keeps, counted in the background. */
import { Context, type Effect, Schema } from "effect"
import type { StoreUnavailable } from "../../domain/StoreUnavailable.ts"
import { Timestamp } from "../../domain/Timestamp.ts"

export const UserStorage = Schema.Struct({
  sub: Schema.String,
  bytes: Schema.Finite,
  tasks: Schema.Int,
  countedAt: Timestamp
})
export type UserStorage = typeof UserStorage.Type

export class StoredBytesStore extends Context.Service<StoredBytesStore, {
  /** Makes users due who created tasks since a moment. One with many tasks is due less often. */
  readonly noteActive: (since: Timestamp, at: Timestamp) => Effect.Effect<void, StoreUnavailable>
  /** Users who are due; no other node gets them until `lease`. */
  readonly claim: (
    at: Timestamp,
    lease: Timestamp,
    limit: number
  ) => Effect.Effect<ReadonlyArray<string>, StoreUnavailable>
  /** Counts all tasks of a user, in statements over a bounded number of them. */
  readonly count: (sub: string) => Effect.Effect<{ readonly bytes: number; readonly tasks: number }, StoreUnavailable>
  /** Records a count. The user is due again at `next`, or earlier if noted since the claim. */
  readonly record: (
    count: UserStorage,
    claim: { readonly lease: Timestamp; readonly next: Timestamp }
  ) => Effect.Effect<void, StoreUnavailable>
  /** The largest first. */
  readonly largest: (limit: number) => Effect.Effect<ReadonlyArray<UserStorage>, StoreUnavailable>
  /** Users who keep more than `bytes`, the largest first. */
  readonly above: (bytes: number, limit: number) => Effect.Effect<ReadonlyArray<string>, StoreUnavailable>
}>()("async-task-service/services/store/StoredBytesStore") {}
