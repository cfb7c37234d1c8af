/** Receives the events of a webhook endpoint on Express. `express.raw` keeps the raw body, which `express.json` does not. */
// oxlint-disable oxc/no-async-endpoint-handlers -- Express 5 handles rejected promises
import express from "express"
import { verifyWebhook, WebhookVerificationError } from "../../../src/http/client/Webhooks.ts" // async-task-service/webhooks

/** In a real receiver a table with a unique key: an event may arrive more than once, with the same id. */
const seen = new Set<string>()

const app = express()
app.post("/events", express.raw({ type: "application/json", limit: "2mb" }), async (request, response) => {
  try {
    const secret = (process.env["ENDPOINT_SECRET"] ?? "").split(",") // two while the secret is rotated
    const { id, taskId, type } = await verifyWebhook({ body: request.body, headers: request.headers, secret })
    if (!seen.has(id)) console.log(type, taskId)
    seen.add(id)
    response.sendStatus(204)
  } catch (error) {
    // Any other error is the receiver's own: Express answers 500, and the service sends the event again.
    if (!(error instanceof WebhookVerificationError)) throw error
    response.sendStatus(401)
  }
})
app.listen(Number(process.env["PORT"]), "127.0.0.1", () => console.log("listening"))
