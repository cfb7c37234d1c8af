/** A webhook receiver on Express. `express.raw` keeps the raw body, which `express.json` does not. */
// oxlint-disable oxc/no-async-endpoint-handlers -- Express 5 handles rejected promises
import express from "express"
import { createServer } from "node:http"
import { verifyWebhook, WebhookVerificationError } from "../../../../src/http/client/Webhooks.ts"

export const makeReceiver = (secret: string, onTask: (task: object) => void) => {
  const app = express()
  app.post("/", express.raw({ type: "application/json", limit: "33mb" }), async (request, response) => {
    try {
      const { task } = await verifyWebhook({ body: request.body, headers: request.headers, secret })
      onTask(task)
      response.sendStatus(204)
    } catch (error) {
      // Any other error is the receiver's own: Express logs it and answers 500, and the service sends the webhook again.
      if (!(error instanceof WebhookVerificationError)) throw error
      response.sendStatus(401)
    }
  })
  return createServer(app)
}
