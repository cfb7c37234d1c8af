/**
 * The store of webhook endpoints and of their deliveries. A change of a task inserts the deliveries in its own transaction, so neither exists
 * without the other. A delivery is pending while it is due, and its endpoint's log keeps it afterwards.
 */
import { Context, type Effect, type Option } from "effect"
import type { StoreUnavailable } from "../../domain/StoreUnavailable.ts"
import type { TaskStatus } from "../../domain/Task.ts"
import type { Timestamp } from "../../domain/Timestamp.ts"
import type { DeliveryAttempt, DeliveryKey, DeliveryState } from "../../domain/Webhook.ts"
import type { AttemptOutcome, ClaimedDelivery } from "../store/webhooks/WebhookStore.ts"
import type { Outbox } from "../webhooks/WebhookAttempts.ts"
import type {
  Definition,
  DisabledReason,
  Endpoint,
  EventKey,
  Format,
  LoggedDelivery,
  SealedSecrets
} from "./Endpoint.ts"

/** Its `sub` is the endpoint's id: the limits of a user are those of an endpoint. */
export interface EndpointDelivery extends ClaimedDelivery, SealedSecrets {
  readonly secret: string
  readonly status: TaskStatus
  readonly format: Format
  /** Attempts that do not count: those by hand, and of earlier rounds. */
  readonly attemptsBefore: number
}

/** A page of a log begins behind this delivery. */
export interface Position extends DeliveryKey {
  readonly at: Timestamp
}

export interface Sample extends EventKey {
  readonly status: TaskStatus
  readonly format: Format
  readonly body: string
  readonly happenedAt: Timestamp
  /** Null where nothing is sent: the sample is read. */
  readonly attempt: DeliveryAttempt | null
}

export interface StreamedEvent {
  readonly position: number
  readonly key: DeliveryKey
  readonly status: TaskStatus
  readonly body: string
}

export interface Replay {
  readonly from: Timestamp
  readonly to: Timestamp
  readonly failedOnly: boolean
}

export type Disabled = Pick<Endpoint, "id" | "url"> & { readonly reason: DisabledReason }

/** How endpoints are doing, for metrics. */
export interface Health {
  readonly disabledReason: DisabledReason | null
  readonly failingSince: Timestamp | null
  /** The oldest due event of endpoints that are sent to. */
  readonly oldestDue: Timestamp | null
}

type Call<A> = Effect.Effect<A, StoreUnavailable>

export class EndpointsStore extends Context.Service<EndpointsStore, {
  /** False if there are as many as may be. */
  readonly insert: (endpoint: Endpoint) => Call<boolean>
  /** Newest first, at most `limit` behind `after`. */
  readonly list: (
    after: { readonly at: Timestamp; readonly id: string } | null,
    limit: number
  ) => Call<ReadonlyArray<Endpoint>>
  readonly get: (id: string) => Call<Option.Option<Endpoint>>
  /** `disabled` is null to enable the endpoint, and undefined to leave it as it is. */
  readonly update: (
    id: string,
    changes: Partial<Definition>,
    disabled: DisabledReason | null | undefined,
    at: Timestamp
  ) => Call<Option.Option<Endpoint>>
  /** The secret of now signs too, until a moment if one is given. */
  readonly rotate: (
    id: string,
    secret: string,
    oldUntil: Timestamp | null,
    at: Timestamp
  ) => Call<Option.Option<Endpoint>>
  /**
   * Endpoints that were enabled go on: what is older than `keptWhileDisabled` is given up, and what has not succeeded is due, with a new round of
   * attempts. Reads about `limit` rows at a time. Repeated after a crash, it does the rest.
   */
  readonly resume: (limit: number) => Call<void>
  readonly remove: (id: string) => Call<boolean>
  /** Replaces a sealed secret wherever it is still in use. */
  readonly replaceSecret: (sealed: string, by: string) => Call<void>

  /** Newest first. */
  readonly deliveries: (
    id: string,
    state: DeliveryState | null,
    after: Position | null,
    limit: number
  ) => Call<ReadonlyArray<LoggedDelivery>>
  readonly delivery: (key: EventKey) => Call<Option.Option<LoggedDelivery>>
  /** One more attempt, due immediately; a pending one moves forward. False without the delivery or its body. */
  readonly redeliver: (key: EventKey, at: Timestamp) => Call<boolean>
  /** Sends deliveries of the log that are not pending again, the oldest first, at most `limit`. `left` are those beyond, at most 100,000. */
  readonly replay: (
    id: string,
    replay: Replay,
    at: Timestamp,
    limit: number
  ) => Call<{ readonly enqueued: number; readonly left: number }>
  readonly addSample: (sample: Sample) => Call<void>
  /** The events of an endpoint without a URL behind a position, in the order in which they were first read. */
  readonly read: (id: string, after: number, at: Timestamp) => Call<ReadonlyArray<StreamedEvent>>

  readonly outbox: Omit<Outbox<EndpointDelivery>["store"], "recordOutcomes"> & {
    /** Returns the endpoints that the outcomes disable. */
    readonly recordOutcomes: (outcomes: ReadonlyArray<AttemptOutcome>) => Call<ReadonlyArray<Disabled>>
    /** Deliveries that are due since a moment were committed by this node. */
    readonly committed: (at: Timestamp) => void
  }

  /** Deletes what is older and has ended, and what is left of removed endpoints: at most `limit` deliveries of each. Returns their number. */
  readonly deleteBefore: (before: Timestamp, limit: number) => Call<number>
  /** Gives up pending deliveries of disabled and of unread endpoints that are older. Returns their number. */
  readonly dropOld: (before: Timestamp, limit: number) => Call<number>
  /**
   * Gives up the oldest pending deliveries until the bodies of the others have at most so many bytes. A body that several endpoints wait for is
   * counted once. Returns the number of deliveries.
   */
  readonly dropBacklog: (bytes: number, limit: number) => Call<number>
  readonly health: Call<ReadonlyArray<Health>>
}>()("async-task-service/services/endpoints/EndpointsStore") {}
