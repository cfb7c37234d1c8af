/** A webhook receiver on Fastify. The parser keeps the raw body, which Fastify's own does not. */
import fastify from "fastify"
import { verifyWebhook, WebhookVerificationError } from "../../../../src/http/client/Webhooks.ts"

export const makeReceiver = (secret: string, onTask: (task: object) => void) => {
  const app = fastify({ bodyLimit: 33 * 1024 * 1024 })
  app.addContentTypeParser("application/json", { parseAs: "buffer" }, (_, body, done) => done(null, body))
  app.post<{ Body: Buffer }>("/", async (request, reply) => {
    try {
      const { task } = await verifyWebhook({ body: request.body, headers: request.headers, secret })
      onTask(task)
      return reply.code(204).send()
    } catch (error) {
      // Any other error is the receiver's own: Fastify logs it and answers 500, and the service sends the webhook again.
      if (!(error instanceof WebhookVerificationError)) throw error
      return reply.code(401).send()
    }
  })
  return app
}
