/** Receives the events of a webhook endpoint on Fastify. The parser keeps the raw body, which Fastify's own does not. */
import fastify from "fastify"
import { verifyWebhook, WebhookVerificationError } from "../../../src/http/client/Webhooks.ts" // async-task-service/webhooks

/** In a real receiver a table with a unique key: an event may arrive more than once, with the same id. */
const seen = new Set<string>()

const app = fastify({ bodyLimit: 2 * 1024 * 1024 })
app.addContentTypeParser("application/json", { parseAs: "buffer" }, (_, body, done) => done(null, body))
app.post<{ Body: Buffer }>("/events", async (request, reply) => {
  try {
    const secret = (process.env["ENDPOINT_SECRET"] ?? "").split(",") // two while the secret is rotated
    const { id, taskId, type } = await verifyWebhook({ body: request.body, headers: request.headers, secret })
    if (!seen.has(id)) console.log(type, taskId)
    seen.add(id)
    return reply.code(204).send()
  } catch (error) {
    // Any other error is the receiver's own: Fastify answers 500, and the service sends the event again.
    if (!(error instanceof WebhookVerificationError)) throw error
    return reply.code(401).send()
  }
})
await app.listen({ port: Number(process.env["PORT"]), host: "127.0.0.1" })
console.log("listening")
