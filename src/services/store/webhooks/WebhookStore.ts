/**
 * The store of webhook deliveries: the outbox of pending deliveries and the log of their attempts. `TaskStore`
 * inserts a delivery in the statement that commits the change, so neither exists without the other. An attempt is
 * counted when it is claimed, before it is sent. The first success deletes the encrypted secret; until then a failed
 * delivery can be sent again without it.
 */
import { Context, type Duration, type Effect, type Option } from "effect"
import type { OpaqueJson } from "../../../domain/json/OpaqueJson.ts"
import type { StoreUnavailable } from "../../../domain/StoreUnavailable.ts"
import type { TaskId } from "../../../domain/Task.ts"
import type { Timestamp } from "../../../domain/Timestamp.ts"
import type { AttemptError, Delivery, DeliveryKey } from "../../../domain/Webhook.ts"

/** Deliveries to proven origins that are claimed for each to another, if there are as many. */
export const provenShare = 3

/**
 * How many deliveries may be claimed. An origin is proven if it has responded to its last attempt, as far as the node knows that
 * claims, or else as stored.
 */
export interface ClaimPermits {
  readonly byOrigin: ReadonlyMap<string, { readonly permits: number; readonly isProven: boolean }>
  /** For each origin that is not in `byOrigin`. */
  readonly ofProven: number
  readonly ofUnproven: number
  readonly byUser: ReadonlyMap<string, UserPermits>
  /** For each user who is not in `byUser`. */
  readonly ofUser: UserPermits
  /** For unproven origins in total. */
  readonly unproven: number
}

export interface UserPermits {
  readonly total: number
  /** The part of `total` that unproven origins may use. */
  readonly unproven: number
}

export interface ClaimRequest {
  readonly at: Timestamp
  /** Deliveries that have been due since before this moment are not found; without it all are. */
  readonly from?: Timestamp
  /** Attempts whose lease expired after this moment are not claimed again yet. */
  readonly lostBefore: Timestamp
  readonly limit: number
  readonly permits: ClaimPermits
  /**
   * Leases by attempt number, from 1: after this time a claimed attempt counts as lost and may be claimed again.
   */
  readonly leases: ReadonlyArray<Duration.Duration>
}

export interface ClaimedDelivery extends DeliveryKey {
  /** The moment of the change. */
  readonly happenedAt: Timestamp
  readonly sub: string
  readonly url: string
  readonly origin: string
  /** Whether the stored outcome of the origin's last attempt was a response. */
  readonly isProven: boolean
  /** This attempt's number, from 1. */
  readonly attempt: number
  /** When this attempt was claimed. A claim that was taken back is followed by one with the same number, but at another time. */
  readonly claimedAt: Timestamp
  readonly isLast: boolean
  /** The moment from which this attempt could have begun. */
  readonly dueAt: Timestamp
  /** Whether the previous attempt was lost: its node stopped before it knew the outcome. */
  readonly isAfterLost: boolean
  /** Encrypted; null when the client gave none. */
  readonly secret: string | null
  /** The body to send; null when it is large, and has to be read with `body` before sending. */
  readonly body: OpaqueJson | null
  /** About the length of the body. */
  readonly bytes: number
}

export interface Claim<Delivery = ClaimedDelivery> {
  readonly deliveries: ReadonlyArray<Delivery>
  /**
   * Whether this claim left due deliveries of origins that had permits: beyond the permits or the limit, or because another
   * node was claiming them. False if it claimed nothing, so that nobody claims in a loop while another session holds locks.
   */
  readonly hasMore: boolean
  /** No delivery that this claim could have found has been due for longer than this; null if that is unknown. */
  readonly oldest: Timestamp | null
}

export interface AttemptOutcome extends DeliveryKey {
  readonly happenedAt: Timestamp
  readonly sub: string
  readonly origin: string
  readonly attempt: number
  readonly endedAt: Timestamp
  /** Milliseconds. */
  readonly duration: number
  readonly responseStatus: number | null
  /** Null means delivered. */
  readonly error: AttemptError | null
  readonly nextAttemptAt: Timestamp | null
}

export type LostAttempt = Pick<ClaimedDelivery, keyof DeliveryKey | "origin" | "attempt">

/**
 * `needs_secret`: the delivery succeeded, which deleted its secret, so it cannot be signed unless the secret is given.
 * `exhausted` and `too_many`: the user has reached a limit, of attempts of this delivery or of redeliveries at a time.
 */
export type Redelivery = "enqueued" | "unknown" | "needs_secret" | "exhausted" | "too_many"

export class WebhookStore extends Context.Service<WebhookStore, {
  /**
   * Claims deliveries that are due, and counts the attempt of each. Users take turns, and so do the origins of a user.
   */
  readonly claim: (request: ClaimRequest) => Effect.Effect<Claim, StoreUnavailable>
  /** The moment from which the oldest due delivery has been due; null if none is due. */
  readonly oldestDue: (at: Timestamp) => Effect.Effect<Timestamp | null, StoreUnavailable>
  /** Ends the deliveries whose last attempt was lost: its lease has expired. Returns that attempt of each. */
  readonly endLost: (at: Timestamp) => Effect.Effect<ReadonlyArray<LostAttempt>, StoreUnavailable>
  readonly body: (key: DeliveryKey) => Effect.Effect<Option.Option<OpaqueJson>, StoreUnavailable>
  /**
   * Takes a claim back, even if it counts as lost: its attempt does not count, and the delivery is due at `until`. Does nothing if
   * the claim was already taken back.
   */
  readonly postpone: (
    claim: Pick<ClaimedDelivery, keyof DeliveryKey | "attempt" | "claimedAt">,
    until: Timestamp
  ) => Effect.Effect<void, StoreUnavailable>
  /** Also stores which origins are proven. */
  readonly recordOutcomes: (outcomes: ReadonlyArray<AttemptOutcome>) => Effect.Effect<void, StoreUnavailable>
  readonly get: (key: DeliveryKey) => Effect.Effect<Option.Option<Delivery>, StoreUnavailable>
  /** The newest `Limits.listedDeliveries`, oldest first. */
  readonly ofTask: (taskId: TaskId) => Effect.Effect<ReadonlyArray<Delivery>, StoreUnavailable>
  /**
   * Schedules one more attempt, due immediately. For a pending delivery it moves the next attempt forward instead, and
   * while an attempt is in flight it changes nothing. `secret` (encrypted) replaces one that a success deleted. The
   * request of a user counts against the user's limits; `sub` is null for an operator, who has none.
   */
  readonly redeliver: (
    key: DeliveryKey,
    at: Timestamp,
    secret: string | null,
    sub: string | null
  ) => Effect.Effect<Redelivery, StoreUnavailable>
}>()("async-task-service/services/store/webhooks/WebhookStore") {}
