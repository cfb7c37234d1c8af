/** The headers of one attempt: `X-Task-Uuid`, `X-Signature`, and the three of Standard Webhooks. */
import { Context, Redacted } from "effect"
import { type Timestamp, unixSeconds } from "../../domain/Timestamp.ts"
import { deliveryId, type DeliveryKey } from "../../domain/Webhook.ts"
import { bodyKey, standardKey, standardPrefix } from "../../domain/WebhookSignature.ts"

/** HMAC-SHA256, computed synchronously: each delivery needs two. */
export class HmacSha256 extends Context.Service<
  HmacSha256,
  (key: Uint8Array, content: ReadonlyArray<string | Uint8Array>, encoding: "hex" | "base64") => string
>()("async-task-service/services/webhooks/WebhookHeaders/HmacSha256") {}

export const headersOf = (
  hmac: HmacSha256["Service"],
  key: DeliveryKey,
  at: Timestamp,
  body: Uint8Array,
  secret: Redacted.Redacted | undefined
): Record<string, string> => {
  const id = deliveryId(key)
  const second = String(unixSeconds(at))
  const headers: Record<string, string> = {
    "content-type": "application/json",
    "user-agent": "async-task-service",
    "x-task-uuid": key.taskId,
    "webhook-id": id,
    "webhook-timestamp": second
  }
  if (secret === undefined) return headers
  const given = Redacted.value(secret)
  headers["x-signature"] = hmac(bodyKey(given), [body], "hex")
  headers["webhook-signature"] = `v1,${hmac(standardKey(given), [standardPrefix(id, second), body], "base64")}`
  return headers
}
