/** HMAC-SHA256 of `node:crypto`, within the calling thread and without copies of the content. */
import { Layer } from "effect"
import { createHmac } from "node:crypto"
import { HmacSha256 } from "../../services/webhooks/WebhookSignatures.ts"

export const layer = Layer.succeed(HmacSha256, (key, content, encoding) => {
  const hmac = createHmac("sha256", key)
  for (const piece of content) hmac.update(piece)
  return hmac.digest(encoding)
})
