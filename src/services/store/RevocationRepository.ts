/**
 * The store of revoked tokens. A revocation is kept until no task can be left that came with its token; what a store tells
 * of a moment is by the store's own clock, so that nodes need not agree on theirs.
 */
import { Context, Duration, type Effect } from "effect"
import * as Limits from "../../domain/Limits.ts"
import type { Principal } from "../../domain/Principal.ts"
import type { Revocation } from "../../domain/Revocation.ts"
import type { Timestamp } from "../../domain/Timestamp.ts"

export interface Recorded {
  readonly revocations: ReadonlyArray<Revocation>
  /** The store's moment of the reading. */
  readonly readAt: Timestamp
}

/** A task of the token's last second may run on for its whole time limit. */
export const keptAfterExpiry = Duration.seconds(Limits.maxExecutionTime)

/** How much later than its moment a revocation may become visible to other connections. */
export const visibilityLag = Duration.seconds(60)

export class RevocationRepository extends Context.Service<RevocationRepository, {
  /** One of the same token or user before it is widened, never narrowed. */
  readonly add: (revocation: Revocation) => Effect.Effect<void>
  /** Those since the reading of `moment`, and some of before (`visibilityLag`); all of them without a moment. */
  readonly since: (moment: Timestamp | undefined) => Effect.Effect<Recorded>
  readonly isRevoked: (principal: Principal) => Effect.Effect<boolean>
  /** Forgets those whose tokens expired long enough before `at`; returns how many. */
  readonly deleteExpired: (at: Timestamp, limit: number) => Effect.Effect<number>
}>()("async-task-service/services/store/RevocationRepository") {}
