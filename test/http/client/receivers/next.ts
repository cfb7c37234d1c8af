/** A webhook receiver as a route handler of Next.js: `export const POST = makeReceiver(secret, onTask)` in `app/webhook/route.ts`. */
import { verifyWebhook, WebhookVerificationError } from "../../../../src/http/client/Webhooks.ts"

export const makeReceiver = (secret: string, onTask: (task: object) => void) => async (request: Request) => {
  try {
    const body = await request.arrayBuffer()
    const { task } = await verifyWebhook({ body, headers: request.headers, secret })
    onTask(task)
    return new Response(null, { status: 204 })
  } catch (error) {
    // Any other error is the receiver's own: with 500 the service retries the webhook.
    return new Response(null, { status: error instanceof WebhookVerificationError ? 401 : 500 })
  }
}
