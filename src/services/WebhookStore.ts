/**
 * The store of webhook deliveries: the outbox of what is owed and the ledger of what became of it. Rows come into being
 * with the change that they tell, in `TaskRepository`'s own statement; an attempt is counted when it is claimed, before it
 * is sent. The sealed secret goes with the first success; until then a failed delivery can be asked for again.
 */
import { Context, type Duration, type Effect, type Option } from "effect"
import type { TaskId } from "../domain/Task.ts"
import type { Timestamp } from "../domain/Timestamp.ts"
import type { AttemptError, Delivery, DeliveryKey, DeliveryState } from "../domain/Webhook.ts"

export interface ClaimRequest {
  readonly at: Timestamp
  readonly limit: number
  /** How many may be taken for an origin, and for one that is not named. */
  readonly places: ReadonlyMap<string, number>
  readonly placesOfOthers: number
  /** By the attempt's number, from 1: when a claimed attempt counts as lost and the next one may come. */
  readonly leases: ReadonlyArray<Duration.Duration>
}

export interface ClaimedDelivery extends DeliveryKey {
  readonly url: string
  readonly origin: string
  /** This attempt's number, from 1. */
  readonly attempt: number
  readonly isLast: boolean
  /** When this attempt could have begun. */
  readonly dueAt: Timestamp
  /** Whether the node that made the attempt before ended without knowing its outcome. */
  readonly isAfterLost: boolean
  /** Sealed; null when the client gave none. */
  readonly secret: string | null
  /** The bytes to send, as text; null when they are many, and to be read when they are sent. */
  readonly body: string | null
}

export interface AttemptOutcome extends DeliveryKey {
  readonly attempt: number
  readonly endedAt: Timestamp
  /** Milliseconds. */
  readonly duration: number
  readonly responseStatus: number | null
  /** Null means delivered. */
  readonly error: AttemptError | null
  readonly nextAttemptAt: Timestamp | null
}

/**
 * `needs_secret`: it was delivered, so its secret is gone, and it cannot be signed without being given it again.
 * `exhausted` and `too_many`: the user has used up what `Limits` allows, for this delivery or for now.
 */
export type Redelivery = "owed" | "unknown" | "needs_secret" | "exhausted" | "too_many"

export interface DeliveryFilter {
  readonly origin?: string | undefined
  readonly state?: DeliveryState | undefined
  /** Of the change that the delivery tells. */
  readonly since?: Timestamp | undefined
  readonly before?: Timestamp | undefined
  readonly limit: number
}

export class WebhookStore extends Context.Service<WebhookStore, {
  /** Takes deliveries that are due, and counts the attempt. */
  readonly claim: (request: ClaimRequest) => Effect.Effect<ReadonlyArray<ClaimedDelivery>>
  readonly body: (key: DeliveryKey) => Effect.Effect<Option.Option<string>>
  readonly settle: (outcomes: ReadonlyArray<AttemptOutcome>) => Effect.Effect<void>
  readonly get: (key: DeliveryKey) => Effect.Effect<Option.Option<Delivery>>
  /** The newest `Limits.listedDeliveries`, oldest first. */
  readonly ofTask: (taskId: TaskId) => Effect.Effect<ReadonlyArray<Delivery>>
  /** Newest first. */
  readonly find: (filter: DeliveryFilter) => Effect.Effect<ReadonlyArray<Delivery>>
  /**
   * Owes one more attempt at once. Of a delivery that is pending anyway it hurries the next attempt, and changes nothing
   * while one is under way. `secret`, sealed, is for a delivery that has lost its own. A redelivery that a user requests
   * counts against the user's allowance; `sub` is null for an operator's.
   */
  readonly redeliver: (
    key: DeliveryKey,
    at: Timestamp,
    secret: string | null,
    sub: string | null
  ) => Effect.Effect<Redelivery>
  /** The same for failed deliveries that match, oldest first; returns how many. */
  readonly redeliverFailed: (filter: DeliveryFilter, at: Timestamp) => Effect.Effect<number>
}>()("async-task-service/services/WebhookStore") {}
