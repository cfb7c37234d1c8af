/** The ledger of webhooks: for the user whose task it is, and for operators. */
import { Context, Effect, Layer, Option, type Redacted } from "effect"
import type { Principal } from "../domain/Principal.ts"
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
import { Secrets } from "./Secrets.ts"
import { TaskNotifications } from "./TaskNotifications.ts"
import { Tasks } from "./Tasks.ts"
import { type DeliveryFilter, WebhookStore } from "./WebhookStore.ts"

type Refused = DeliveryNotFound | DeliveryNeedsSecret

/** Deliveries owed again in one statement. */
const batch = 500

export class Webhooks extends Context.Service<Webhooks, {
  /** Of a task of the caller's own, oldest first. */
  readonly ofTask: (
    principal: Principal,
    uuid: string
  ) => Effect.Effect<ReadonlyArray<Delivery>, TaskNotFound | TaskBelongsToAnother>
  /** Owes one more attempt of a delivery of the caller's own task, within bounds; see `WebhookStore.redeliver`. */
  readonly redeliver: (
    principal: Principal,
    uuid: string,
    id: string,
    secret: Redacted.Redacted | undefined
  ) => Effect.Effect<Delivery, TaskNotFound | TaskBelongsToAnother | Refused | DeliveryExhausted | TooManyRedeliveries>
  /** For operators, newest first. */
  readonly find: (filter: DeliveryFilter) => Effect.Effect<ReadonlyArray<Delivery>>
  /** For operators, whosever it is. */
  readonly redeliverAny: (id: string) => Effect.Effect<Delivery, Refused>
  /** For operators: owes one more attempt of all deliveries that failed, of one origin or any; returns how many. */
  readonly redeliverFailed: (filter: Pick<DeliveryFilter, "origin" | "since" | "before">) => Effect.Effect<number>
}>()("async-task-service/services/Webhooks") {
  static readonly layer = Layer.effect(
    Webhooks,
    Effect.gen(function*() {
      const tasks = yield* Tasks
      const store = yield* WebhookStore
      const secrets = yield* Secrets
      const { webhookOwed } = yield* TaskNotifications

      const redeliver = Effect.fnUntraced(function*(key: DeliveryKey, sealed: string | null, sub: string | null) {
        const outcome = yield* store.redeliver(key, yield* now, sealed, sub)
        if (outcome === "needs_secret") return yield* new DeliveryNeedsSecret({})
        if (outcome === "exhausted") return yield* new DeliveryExhausted({})
        if (outcome === "too_many") return yield* new TooManyRedeliveries({})
        const delivery = Option.getOrUndefined(yield* store.get(key))
        if (outcome === "unknown" || delivery === undefined) return yield* new DeliveryNotFound({})
        yield* webhookOwed.open
        return delivery
      })

      return Webhooks.of({
        ofTask: (principal, uuid) => Effect.flatMap(tasks.glance(principal, uuid), (head) => store.ofTask(head.uuid)),
        redeliver: Effect.fnUntraced(function*(principal, uuid, id, secret) {
          const head = yield* tasks.glance(principal, uuid)
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
        redeliverFailed: Effect.fnUntraced(function*(filter) {
          const at = yield* now
          let count = 0
          for (;;) {
            const owed = yield* store.redeliverFailed({ ...filter, limit: batch }, at)
            count += owed
            if (owed > 0) yield* webhookOwed.open
            if (owed < batch) return count
          }
        })
      })
    })
  )
}
