/** The delivery log of webhooks, for the user who owns the task and for operators. */
import { Context, Effect, Layer, Option, type Redacted } from "effect"
import type { Principal } from "../domain/Principal.ts"
import type { StoreUnavailable } from "../domain/StoreUnavailable.ts"
import type { TaskBelongsToAnother, TaskNotFound } from "../domain/TaskErrors.ts"
import { now } from "../domain/Timestamp.ts"
import {
  type Delivery,
  DeliveryExhausted,
  type DeliveryKey,
  DeliveryNeedsSecret,
  DeliveryNotFound,
  parseDeliveryId,
  TooManyRedeliveries
} from "../domain/Webhook.ts"
import { WebhooksPending } from "./store/WebhooksPending.ts"
import { type DeliveryFilter, WebhookStore } from "./store/WebhookStore.ts"
import { Tasks } from "./Tasks.ts"
import { Secrets } from "./tokens/Secrets.ts"

type Refused = DeliveryNotFound | DeliveryNeedsSecret | StoreUnavailable

/** Failed deliveries that one statement schedules again. */
const batch = 500

export class Webhooks extends Context.Service<Webhooks, {
  /** The deliveries of a task that the caller owns, oldest first. */
  readonly ofTask: (
    principal: Principal,
    uuid: string
  ) => Effect.Effect<ReadonlyArray<Delivery>, TaskNotFound | TaskBelongsToAnother | StoreUnavailable>
  /**
   * Schedules one more attempt of a delivery of a task that the caller owns, within limits; see
   * `WebhookStore.redeliver`.
   */
  readonly redeliver: (
    principal: Principal,
    uuid: string,
    id: string,
    secret: Redacted.Redacted | undefined
  ) => Effect.Effect<Delivery, TaskNotFound | TaskBelongsToAnother | Refused | DeliveryExhausted | TooManyRedeliveries>
  /** For operators, newest first. */
  readonly find: (filter: DeliveryFilter) => Effect.Effect<ReadonlyArray<Delivery>, StoreUnavailable>
  /** For operators: the same for any user's delivery. */
  readonly redeliverAny: (id: string) => Effect.Effect<Delivery, Refused>
  /** For operators: schedules one more attempt of every failed delivery of an origin, or of all; returns their number. */
  readonly redeliverFailed: (origin?: string) => Effect.Effect<number, StoreUnavailable>
}>()("async-task-service/services/Webhooks") {
  static readonly layer = Layer.effect(
    Webhooks,
    Effect.gen(function*() {
      const tasks = yield* Tasks
      const store = yield* WebhookStore
      const secrets = yield* Secrets
      const webhooksPending = yield* WebhooksPending

      const redeliver = Effect.fnUntraced(function*(key: DeliveryKey, sealed: string | null, sub: string | null) {
        const outcome = yield* store.redeliver(key, yield* now, sealed, sub)
        if (outcome === "needs_secret") return yield* new DeliveryNeedsSecret({})
        if (outcome === "exhausted") return yield* new DeliveryExhausted({})
        if (outcome === "too_many") return yield* new TooManyRedeliveries({})
        const delivery = Option.getOrUndefined(yield* store.get(key))
        if (outcome === "unknown" || delivery === undefined) return yield* new DeliveryNotFound({})
        yield* webhooksPending.open
        return delivery
      })

      return Webhooks.of({
        ofTask: (principal, uuid) => Effect.flatMap(tasks.getHead(principal, uuid), (head) => store.ofTask(head.uuid)),
        redeliver: Effect.fnUntraced(function*(principal, uuid, id, secret) {
          const head = yield* tasks.getHead(principal, uuid)
          const key = parseDeliveryId(id)
          if (key?.taskId !== head.uuid) return yield* new DeliveryNotFound({})
          return yield* redeliver(key, secret === undefined ? null : yield* secrets.seal(secret), principal.sub)
        }),
        find: store.find,
        redeliverAny: (id) =>
          Effect.suspend(() => {
            const key = parseDeliveryId(id)
            return key === undefined ? Effect.fail(new DeliveryNotFound({})) : redeliver(key, null, null)
          }).pipe(Effect.catchTags({ DeliveryExhausted: Effect.die, TooManyRedeliveries: Effect.die })),
        redeliverFailed: Effect.fnUntraced(function*(origin) {
          const at = yield* now
          let count = 0
          for (;;) {
            const enqueued = yield* store.redeliverFailed(origin, batch, at)
            count += enqueued
            if (enqueued > 0) yield* webhooksPending.open
            if (enqueued < batch) return count
          }
        })
      })
    })
  )
}
