/** Receives the webhook of a task and verifies its signature. */
import { once } from "node:events"
import { createServer } from "node:http"
import type { AddressInfo } from "node:net"
import { buffer } from "node:stream/consumers"
import { TaskServiceClient } from "../../src/http/client/Client.ts" // async-task-service/client
import { verifyWebhook, WebhookVerificationError } from "../../src/http/client/Webhooks.ts" // async-task-service/webhooks

const secret = crypto.randomUUID()
const seen = new Set<string>()

const receiver = createServer(async (request, response) => {
  try {
    // The signature covers the raw bytes, so read them before anything parses them.
    const body = await buffer(request)
    const { id, task } = await verifyWebhook({ body, headers: request.headers, secret })
    response.writeHead(204).end()
    // A webhook may arrive more than once, with the same id.
    if (seen.has(id)) return
    seen.add(id)
    console.log("verified:", task.uuid, task.status)
    receiver.close()
  } catch (error) {
    // 401 for a forgery; after any other error the webhook is sent again.
    response.writeHead(error instanceof WebhookVerificationError ? 401 : 500).end()
  }
})
receiver.listen(0, "127.0.0.1")
await once(receiver, "listening")
const { port } = receiver.address() as AddressInfo

const client = new TaskServiceClient({
  baseUrl: process.env["TASK_SERVICE_URL"] ?? "http://127.0.0.1:3000",
  token: process.env["TASK_SERVICE_TOKEN"] ?? ""
})
await client.tasks.create({
  assistant_id: 1,
  input: [{ type: "text", text: "echo hello" }],
  callback_url: `http://127.0.0.1:${port}/hook`, // the service must allow it: WEBHOOK_ALLOW_PRIVATE=true
  callback_secret: secret
})
