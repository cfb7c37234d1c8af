/** A receiver of webhooks on plain Node. */
import { createServer } from "node:http"
import { buffer } from "node:stream/consumers"
import { verifyWebhook } from "../../../../src/http/client/Webhooks.ts"

export const makeReceiver = (secret: string, onTask: (task: object) => void) =>
  createServer(async (request, response) => {
    try {
      const body = await buffer(request)
      const { task } = await verifyWebhook({ body, headers: request.headers, secret })
      onTask(task)
      response.writeHead(204).end()
    } catch {
      response.writeHead(401).end()
    }
  })
