/** A receiver of webhooks on plain Node. */
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
      // Whatever else went wrong is our own fault: the webhook comes again.
      response.writeHead(error instanceof WebhookVerificationError ? 401 : 500).end()
    }
  })
