/** Where the service's webhooks arrive: every one is kept, and answered as a test says. */
import { Context, Effect, Layer } from "effect"
import { format, now } from "../../domain/Timestamp.ts"
import type { Task } from "../../http/client/promise/Types.ts"
import { NoAnswer, WebhookSender } from "../../services/WebhookSender.ts"

/** One attempt to deliver a webhook. */
export interface ReceivedWebhook {
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  /** As it came, to verify its signature by. */
  readonly body: string
  readonly task: Task
  /** By the test's clock. */
  readonly at: string
}

/** An HTTP status, or `down` for no answer at all. */
export type WebhookAnswer = number | "down"

const make = Effect.sync(() => {
  const received: Array<ReceivedWebhook> = []
  let answer: WebhookAnswer = 204
  return {
    /** Every attempt, oldest first. */
    received: Effect.sync(() => [...received]),
    /** What is answered from now on; 204 at first. */
    answerWith: (given: WebhookAnswer) =>
      Effect.sync(() => {
        answer = given
      }),
    take: Effect.fnUntraced(function*(url: string, headers: Readonly<Record<string, string>>, bytes: Uint8Array) {
      const body = new TextDecoder().decode(bytes)
      received.push({ url, headers, body, task: JSON.parse(body), at: format(yield* now) })
      return answer === "down" ? yield* new NoAnswer({ error: "connection_failed" }) : answer
    })
  }
})

export class TestWebhooks extends Context.Service<TestWebhooks, Effect.Success<typeof make>>()(
  "async-task-service/runtime/testing/TestWebhooks"
) {
  static readonly layer = Layer.effect(TestWebhooks, make)
  static readonly layerSender = Layer.effect(WebhookSender, Effect.map(TestWebhooks, ({ take }) => ({ post: take })))
}
