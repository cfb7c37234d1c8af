/**
 * The store of revoked tokens. A revocation is kept until no task created with its token can be live. Reads are
 * timestamped by the store's own clock, so that the nodes' clocks need not agree.
 */
import { Context, Duration, type Effect } from "effect"
import * as Limits from "../../../domain/Limits.ts"
import type { Principal } from "../../../domain/Principal.ts"
import type { Revocation } from "../../../domain/Revocation.ts"
import type { StoreUnavailable } from "../../../domain/StoreUnavailable.ts"
import type { Timestamp } from "../../../domain/Timestamp.ts"

export interface Recorded {
  readonly revocations: ReadonlyArray<Revocation>
  /** The time of the read, by the store's clock. */
  readonly readAt: Timestamp
}

/** A task created in the token's last second may run for its whole time limit. */
export const keptAfterExpiry = Duration.seconds(Limits.maxExecutionTime)

/** Maximum time from a revocation's timestamp until other connections see it. */
export const visibilityLag = Duration.seconds(60)

export class RevocationRepository extends Context.Service<RevocationRepository, {
  /** Adds a revocation by `author`, if it is known. An earlier one of the same token or user is extended, never reduced. */
  readonly add: (revocation: Revocation, author?: string) => Effect.Effect<void, StoreUnavailable>
  /** Revocations since the read at `moment`, and some earlier ones (`visibilityLag`). All without a moment. */
  readonly since: (moment: Timestamp | undefined) => Effect.Effect<Recorded, StoreUnavailable>
  readonly isRevoked: (principal: Principal) => Effect.Effect<boolean, StoreUnavailable>
  /** Deletes revocations of tokens that expired `keptAfterExpiry` before `at`; returns their number. */
  readonly deleteExpired: (at: Timestamp, limit: number) => Effect.Effect<number, StoreUnavailable>
}>()("async-task-service/services/store/revocations/RevocationRepository") {}
