/** A simulated webhook target: it succeeds, fails, hangs or is unreachable, and records the bodies that it received. */
import { Effect, Option } from "effect"
import { toText } from "../../src/domain/json/OpaqueJson.ts"
import * as Limits from "../../src/domain/Limits.ts"
import { deliveryId } from "../../src/domain/Webhook.ts"
import { DeliveryError } from "../../src/services/webhooks/WebhookSender.ts"
import type { World } from "./World.ts"

const behaviors = { answers: 12, fails: 4, hangs: 1, "is away": 2 }

export const receive = (
  { dice, isRough, posts, recorder }: World,
  headers: Readonly<Record<string, string>>,
  body: Uint8Array
): Effect.Effect<number, DeliveryError> =>
  Effect.gen(function*() {
    const behavior = isRough ? dice.weigh(behaviors) : "answers"
    if (behavior === "is away") return yield* new DeliveryError({ error: "connection_failed" })
    const id = headers["webhook-id"] ?? ""
    posts.set(id, [...posts.get(id) ?? [], new TextDecoder().decode(body)])
    yield* recorder.note("target", `${id} ${behavior}`)
    if (behavior === "hangs") return yield* Effect.never
    yield* Effect.sleep(dice.delay(2000))
    return behavior === "answers" ? 204 : 500
  })

export const isQuiet = ({ tables }: World) =>
  Effect.sync(() => [...tables.deliveries.values()].every(({ dueAt }) => dueAt === null))

/** The statuses that are delivered. */
const delivered = new Set<string>(["interrupted", "completed", "failed", "canceled"])

/**
 * Checks the webhook invariant: a task with a callback URL has one delivery for each interrupt and for its end, each of which is
 * received, or was tried five times; at most five POSTs of a delivery, all with the same bytes; no delivery stays pending.
 */
export const check = Effect.fnUntraced(function*({ acknowledged, posts, recorder, store, webhooks }: World) {
  for (const { isHooked, uuid } of acknowledged.values()) {
    const deliveries = yield* webhooks.ofTask(uuid)
    const events = yield* store.eventsAfter(uuid, -1, 1000)
    const expected = isHooked ? events.filter(({ status, type }) => delivered.has(status) && type !== "Created") : []
    if (deliveries.length !== expected.length) {
      yield* recorder.violated(`${uuid} has ${deliveries.length} deliveries instead of ${expected.length}`)
    }
    for (const delivery of deliveries) {
      const id = deliveryId(delivery)
      const got = posts.get(id) ?? []
      if (delivery.attempts.length > Limits.webhookAttempts || got.length > delivery.attempts.length) {
        yield* recorder.violated(`${id} was sent ${got.length} times in ${delivery.attempts.length} attempts`)
      }
      if (delivery.state === "failed" && delivery.attempts.length < Limits.webhookAttempts) {
        yield* recorder.violated(`${id} was given up after ${delivery.attempts.length} attempts`)
      }
      if (delivery.state === "pending") yield* recorder.violated(`${id} stays pending`)
      if (delivery.state === "delivered" && got.length === 0) yield* recorder.violated(`${id} was never received`)
      const fixed = Option.getOrUndefined(Option.map(yield* webhooks.body(delivery), toText))
      if (got.some((body) => body !== fixed)) yield* recorder.violated(`${id} was received with different bytes`)
    }
  }
})
