/** A webhook receiver on plain Node. */
import { createServer } from "node:http"
import { buffer } from "node:stream/consumers"
import { verifyWebhook, WebhookVerificationError } from "../../../../src/http/client/Webhooks.ts"

export const makeReceiver = (secret: string, onTask: (task: object) => void) =>
  createServer(async (request, response) => {
    try {
      const body = await buffer(request)
      const { task } = await verifyWebhook({ body, headers: request.headers, secret })
      onTask(task)
      response.writeHead(204).end()
    } catch (error) {
      // Any other error is the receiver's own: with 500 the service sends the webhook again.
      const isForged = error instanceof WebhookVerificationError
      if (!isForged) console.error(error)
      response.writeHead(isForged ? 401 : 500).end()
    }
  })
