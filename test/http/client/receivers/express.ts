/** A receiver of webhooks on Express: `express.raw` keeps the body as it came, which `express.json` does not. */
// oxlint-disable oxc/no-async-endpoint-handlers -- Express 5 passes on what is rejected
import express from "express"
import { createServer } from "node:http"
import { verifyWebhook, WebhookVerificationError } from "../../../../src/http/client/Webhooks.ts"

export const makeReceiver = (secret: string, onTask: (task: object) => void) => {
  const app = express()
  app.post("/", express.raw({ type: "application/json", limit: "64mb" }), async (request, response) => {
    try {
      const { task } = await verifyWebhook({ body: request.body, headers: request.headers, secret })
      onTask(task)
      response.sendStatus(204)
    } catch (error) {
      // Whatever else went wrong is our own fault: the webhook comes again.
      response.sendStatus(error instanceof WebhookVerificationError ? 401 : 500)
    }
  })
  return createServer(app)
}
