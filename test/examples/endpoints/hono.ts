/** Receives the events of a webhook endpoint on Hono, for any runtime. */
import { serve } from "@hono/node-server"
import { Hono } from "hono"
import { verifyWebhook, WebhookVerificationError } from "../../../src/http/client/Webhooks.ts" // async-task-service/webhooks

/** In a real receiver a table with a unique key: an event may arrive more than once, with the same id. */
const seen = new Set<string>()

const app = new Hono()
app.post("/events", async (context) => {
  try {
    const secret = (process.env["ENDPOINT_SECRET"] ?? "").split(",") // two while the secret is rotated
    const body = await context.req.arrayBuffer()
    const { id, taskId, type } = await verifyWebhook({ body, headers: context.req.raw.headers, secret })
    if (!seen.has(id)) console.log(type, taskId)
    seen.add(id)
    return context.body(null, 204)
  } catch (error) {
    // Any other error is the receiver's own: Hono answers 500, and the service sends the event again.
    if (!(error instanceof WebhookVerificationError)) throw error
    return context.body(null, 401)
  }
})
serve({ fetch: app.fetch, port: Number(process.env["PORT"]), hostname: "127.0.0.1" }, () => console.log("listening"))
