/** The clients' end of webhooks: it answers, fails, hangs or is away, and remembers what it was sent. */
import { Effect, Option } from "effect"
import * as Limits from "../../src/domain/Limits.ts"
import { deliveryId, owesWebhook } from "../../src/domain/Webhook.ts"
import { NoAnswer } from "../../src/services/WebhookSender.ts"
import type { World } from "./World.ts"

const moods = { answers: 12, fails: 4, hangs: 1, "is away": 2 }

export const receive = (
  { dice, isRough, posts, recorder }: World,
  headers: Readonly<Record<string, string>>,
  body: Uint8Array
): Effect.Effect<number, NoAnswer> =>
  Effect.gen(function*() {
    const mood = isRough ? dice.weigh(moods) : "answers"
    if (mood === "is away") return yield* new NoAnswer({ error: "connection_failed" })
    const id = headers["webhook-id"] ?? ""
    posts.set(id, [...posts.get(id) ?? [], new TextDecoder().decode(body)])
    yield* recorder.note("target", `${id} ${mood}`)
    if (mood === "hangs") return yield* Effect.never
    yield* Effect.sleep(dice.delay(2000))
    return mood === "answers" ? 204 : 500
  })

export const isQuiet = ({ webhooks }: World): Effect.Effect<boolean> =>
  Effect.map(webhooks.find({ state: "pending", limit: 1 }), ({ length }) => length === 0)

/** RELIABILITY, invariant 4: at most five POSTs of a delivery, of the same bytes, and what is owed comes to an end. */
export const check = Effect.fnUntraced(function*({ acknowledged, posts, recorder, store, webhooks }: World) {
  for (const { uuid } of acknowledged.values()) {
    const deliveries = yield* webhooks.ofTask(uuid)
    const events = yield* store.eventsAfter(uuid, -1, 1000)
    const owed = events.filter(({ status }) => owesWebhook(status))
    if (deliveries.length > 0 && deliveries.length !== owed.length) {
      yield* recorder.violated(`${uuid} owes ${owed.length} webhooks and has ${deliveries.length}`)
    }
    for (const delivery of deliveries) {
      const id = deliveryId(delivery)
      const got = posts.get(id) ?? []
      if (delivery.attempts.length > Limits.webhookAttempts || got.length > delivery.attempts.length) {
        yield* recorder.violated(`${id} was sent ${got.length} times in ${delivery.attempts.length} attempts`)
      }
      if (delivery.state === "pending") yield* recorder.violated(`${id} is pending for ever`)
      if (delivery.state === "delivered" && got.length === 0) yield* recorder.violated(`${id} never came`)
      const fixed = Option.getOrUndefined(yield* webhooks.body(delivery))
      if (got.some((body) => body !== fixed)) yield* recorder.violated(`${id} came with other bytes`)
    }
  }
})
