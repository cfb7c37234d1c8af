/** A receiver of webhooks on Express: `express.raw` keeps the body as it came, which `express.json` does not. */
// oxlint-disable oxc/no-async-endpoint-handlers -- Express 5 passes on what is rejected
import express from "express"
import { createServer } from "node:http"
import { verifyWebhook } from "../../../../src/http/client/Webhooks.ts"

export const makeReceiver = (secret: string, onTask: (task: object) => void) => {
  const app = express()
  app.post("/", express.raw({ type: "application/json", limit: "64mb" }), async (request, response) => {
    try {
      const { task } = await verifyWebhook({ body: request.body, headers: request.headers, secret })
      onTask(task)
      response.sendStatus(204)
    } catch {
      response.sendStatus(401)
    }
  })
  return createServer(app)
}
