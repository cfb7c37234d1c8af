/** The delivery log of webhooks, for the user who owns the task. */
import { Context, Effect, Layer, Option, type Redacted } from "effect"
import type { Principal } from "../../domain/Principal.ts"
import type { StoreUnavailable } from "../../domain/StoreUnavailable.ts"
import type { TaskBelongsToAnother, TaskNotFound } from "../../domain/TaskErrors.ts"
import { now } from "../../domain/Timestamp.ts"
import {
  type Delivery,
  DeliveryExhausted,
  DeliveryNeedsSecret,
  DeliveryNotFound,
  parseDeliveryId,
  TooManyRedeliveries
} from "../../domain/Webhook.ts"
import { Changes } from "../signals/Changes.ts"
import { WebhookStore } from "../store/webhooks/WebhookStore.ts"
import { Tasks } from "../tasks/Tasks.ts"
import { Secrets } from "../tokens/Secrets.ts"

type Refused =
  | DeliveryNotFound
  | DeliveryNeedsSecret
  | DeliveryExhausted
  | TooManyRedeliveries

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
  ) => Effect.Effect<Delivery, TaskNotFound | TaskBelongsToAnother | Refused | StoreUnavailable>
}>()("async-task-service/services/webhooks/Webhooks") {
  static readonly layer = Layer.effect(
    Webhooks,
    Effect.gen(function*() {
      const tasks = yield* Tasks
      const store = yield* WebhookStore
      const secrets = yield* Secrets
      const changes = yield* Changes

      return Webhooks.of({
        ofTask: (principal, uuid) => Effect.flatMap(tasks.getHead(principal, uuid), (head) => store.ofTask(head.uuid)),
        redeliver: Effect.fnUntraced(function*(principal, uuid, id, secret) {
          const head = yield* tasks.getHead(principal, uuid)
          const key = parseDeliveryId(id)
          if (key?.taskId !== head.uuid) return yield* new DeliveryNotFound({})
          const sealed = secret === undefined ? null : yield* secrets.seal("callback-secret", secret)
          const at = yield* now
          const outcome = yield* store.redeliver(key, at, sealed, principal.sub)
          if (outcome === "needs_secret") return yield* new DeliveryNeedsSecret({})
          if (outcome === "exhausted") return yield* new DeliveryExhausted({})
          if (outcome === "too_many") return yield* new TooManyRedeliveries({})
          const delivery = Option.getOrUndefined(yield* store.get(key))
          if (outcome === "unknown" || delivery === undefined) return yield* new DeliveryNotFound({})
          changes.webhooks.due(at)
          return delivery
        })
      })
    })
  )
}
