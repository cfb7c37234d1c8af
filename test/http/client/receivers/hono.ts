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
      // Any other error is the receiver's own: Hono logs it and answers 500, and the service sends the webhook again.
      if (!(error instanceof WebhookVerificationError)) throw error
      return context.body(null, 401)
    }
  })
  return createAdaptorServer({ fetch: app.fetch })
}
