/** The delivery log of webhooks, for the user who owns the task and for operators. */
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

/** Failed deliveries that one statement schedules again. */
const batch = 500

export class Webhooks extends Context.Service<Webhooks, {
  /** The deliveries of a task that the caller owns, oldest first. */
  readonly ofTask: (
    principal: Principal,
    uuid: string
  ) => Effect.Effect<ReadonlyArray<Delivery>, TaskNotFound | TaskBelongsToAnother>
  /** Schedules one more attempt of a delivery of a task that the caller owns; see `WebhookStore.redeliver`. */
  readonly redeliver: (
    principal: Principal,
    uuid: string,
    id: string,
    secret: Redacted.Redacted | undefined
  ) => Effect.Effect<Delivery, TaskNotFound | TaskBelongsToAnother | Refused>
  /** For operators, newest first. */
  readonly find: (filter: DeliveryFilter) => Effect.Effect<ReadonlyArray<Delivery>>
  /** For operators: the same for any user's delivery. */
  readonly redeliverAny: (id: string) => Effect.Effect<Delivery, Refused>
  /** For operators: schedules one more attempt of every failed delivery that matches; returns their number. */
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
            const enqueued = yield* store.redeliverFailed({ ...filter, limit: batch }, at)
            count += enqueued
            if (enqueued > 0) yield* webhookOwed.open
            if (enqueued < batch) return count
          }
        })
      })
    })
  )
}
