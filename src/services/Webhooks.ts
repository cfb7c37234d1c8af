/** The ledger of webhooks: for the user whose task it is, and for operators. */
import { Context, Effect, Layer, type Redacted } from "effect"
import type { Principal } from "../domain/Principal.ts"
import type { TaskBelongsToAnother, TaskNotFound } from "../domain/TaskErrors.ts"
import { now } from "../domain/Timestamp.ts"
import { type Delivery, deliveryId, DeliveryNeedsSecret, DeliveryNotFound, parseDeliveryId } from "../domain/Webhook.ts"
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
  /** Owes one more attempt of a delivery of the caller's own task; see `WebhookStore.redeliver`. */
  readonly redeliver: (
    principal: Principal,
    uuid: string,
    id: string,
    secret: Redacted.Redacted | undefined
  ) => Effect.Effect<Delivery, TaskNotFound | TaskBelongsToAnother | Refused>
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

      const redeliverAny = Effect.fnUntraced(function*(id: string, sealed: string | null = null) {
        const key = parseDeliveryId(id)
        if (key === undefined) return yield* new DeliveryNotFound({})
        const outcome = yield* store.redeliver(key, yield* now, sealed)
        if (outcome === "needs_secret") return yield* new DeliveryNeedsSecret({})
        const delivery = (yield* store.ofTask(key.taskId)).find((found) => deliveryId(found) === id)
        if (outcome === "unknown" || delivery === undefined) return yield* new DeliveryNotFound({})
        yield* webhookOwed.open
        return delivery
      })

      return Webhooks.of({
        ofTask: (principal, uuid) => Effect.flatMap(tasks.glance(principal, uuid), (head) => store.ofTask(head.uuid)),
        redeliver: Effect.fnUntraced(function*(principal, uuid, id, secret) {
          const head = yield* tasks.glance(principal, uuid)
          if (parseDeliveryId(id)?.taskId !== head.uuid) return yield* new DeliveryNotFound({})
          return yield* redeliverAny(id, secret === undefined ? null : yield* secrets.seal(secret))
        }),
        find: store.find,
        redeliverAny: (id) => redeliverAny(id),
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
