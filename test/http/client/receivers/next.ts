/** A webhook receiver as a route handler of Next.js: `export const POST = makeReceiver(secret, onTask)` in `app/webhook/route.ts`. */
import { verifyWebhook, WebhookVerificationError } from "../../../../src/http/client/Webhooks.ts"

export const makeReceiver = (secret: string, onTask: (task: object) => void) => async (request: Request) => {
  try {
    const body = await request.arrayBuffer()
    const { task } = await verifyWebhook({ body, headers: request.headers, secret })
    onTask(task)
    return new Response(null, { status: 204 })
  } catch (error) {
    // Any other error is the receiver's own: Next.js logs it and answers 500, and the service sends the webhook again.
    if (!(error instanceof WebhookVerificationError)) throw error
    return new Response(null, { status: 401 })
  }
}
