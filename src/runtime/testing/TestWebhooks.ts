/** Receives all webhooks of the service, records them, and responds as the test decides. */
import { Array, Context, Effect, Layer } from "effect"
import { format, now } from "../../domain/Timestamp.ts"
import type { Task } from "../../http/client/promise/Types.ts"
import { DeliveryError, WebhookSender, WebhookTargets } from "../../services/webhooks/WebhookSender.ts"

/** One attempt to deliver a webhook. */
export interface ReceivedWebhook {
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  /** The raw body, for signature verification. */
  readonly body: string
  /** The task in the body, also of the event of a webhook endpoint. */
  readonly task: Task
  /** Time of the attempt on the test's clock, ISO 8601. */
  readonly at: string
}

/** An HTTP status, or `down` for a failed connection. */
export type WebhookAnswer = number | "down"

const taskOf = (body: Task & { readonly task?: Task; readonly data?: { readonly task: Task } }) =>
  body.data?.task ?? body.task ?? body

const make = Effect.sync(() => {
  const received: globalThis.Array<ReceivedWebhook> = []
  let answers: ReadonlyArray<WebhookAnswer> = []
  return {
    /** All attempts, oldest first. */
    received: Effect.sync(() => [...received]),
    /** Sets the responses to the next attempts; the last one also applies to all later ones. Initially 204. */
    answerWith: (given: WebhookAnswer | ReadonlyArray<WebhookAnswer>) =>
      Effect.sync(() => {
        answers = Array.ensure(given)
      }),
    take: Effect.fnUntraced(function*(url: string, headers: Readonly<Record<string, string>>, bytes: Uint8Array) {
      const body = new TextDecoder().decode(bytes)
      const [answer = 204, ...later] = answers
      if (later.length > 0) answers = later
      received.push({ url, headers, body, task: taskOf(JSON.parse(body)), at: format(yield* now) })
      return answer === "down" ? yield* new DeliveryError({ error: "connection_failed" }) : answer
    })
  }
})

export class TestWebhooks extends Context.Service<TestWebhooks, Effect.Success<typeof make>>()(
  "async-task-service/runtime/testing/TestWebhooks"
) {
  static readonly layer = Layer.effect(TestWebhooks, make)
  static readonly layerSender = Layer.merge(
    Layer.effect(WebhookSender, Effect.map(TestWebhooks, ({ take }) => ({ post: take }))),
    Layer.succeed(WebhookTargets, { check: () => Effect.void })
  )
}
