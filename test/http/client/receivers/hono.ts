/** A webhook receiver on Hono, for any runtime. */
import { createAdaptorServer } from "@hono/node-server"
import { Hono } from "hono"
import { verifyWebhook, WebhookVerificationError } from "../../../../src/http/client/Webhooks.ts"

export const makeReceiver = (secret: string, onTask: (task: object) => void) => {
  const app = new Hono()
  app.post("/", async (context) => {
    try {
      const body = await context.req.arrayBuffer()
      const { task } = await verifyWebhook({ body, headers: context.req.raw.headers, secret })
      onTask(task)
      return context.body(null, 204)
    } catch (error) {
      // Any other error is the receiver's own: with 500 the service retries the webhook.
      return context.body(null, error instanceof WebhookVerificationError ? 401 : 500)
    }
  })
  return createAdaptorServer({ fetch: app.fetch })
}
