/** The headers of one attempt: `X-Task-Uuid`, `X-Signature`, and the three of Standard Webhooks. */
import { Context, Effect, Layer, Redacted } from "effect"
import { Mac } from "effect/crypto"
import { Base64, Hex } from "effect/encoding"
import type { Timestamp } from "../../domain/Timestamp.ts"
import { deliveryId, type DeliveryKey } from "../../domain/Webhook.ts"
import { bodyKey, standardContent, standardKey } from "../../domain/WebhookSignature.ts"

export class WebhookSignatures extends Context.Service<WebhookSignatures, {
  readonly headersOf: (
    key: DeliveryKey,
    at: Timestamp,
    body: Uint8Array,
    secret: Redacted.Redacted | undefined
  ) => Effect.Effect<Record<string, string>>
}>()("async-task-service/services/webhooks/WebhookSignatures") {
  static readonly layer = Layer.effect(
    WebhookSignatures,
    Effect.gen(function*() {
      const mac = yield* Mac.Mac
      const sign = (key: Uint8Array, content: Uint8Array) =>
        Effect.orDie(Effect.flatMap(Mac.key(Mac.hmacSha256, key), (imported) => mac.sign(imported, content)))

      return WebhookSignatures.of({
        headersOf: Effect.fnUntraced(function*(key, at, body, secret) {
          const id = deliveryId(key)
          const second = String(Math.floor(at / 1_000_000))
          const headers: Record<string, string> = {
            "content-type": "application/json",
            "user-agent": "async-task-service",
            "x-task-uuid": key.taskId,
            "webhook-id": id,
            "webhook-timestamp": second
          }
          if (secret === undefined) return headers
          const given = Redacted.value(secret)
          headers["x-signature"] = Hex.encode(yield* sign(bodyKey(given), body))
          const standard = yield* sign(standardKey(given), standardContent(id, second, body))
          headers["webhook-signature"] = `v1,${Base64.encode(standard)}`
          return headers
        })
      })
    })
  )
}
