/** Makes one POST to a webhook target: no more and no less, whatever the target does. */
import { Context, type Effect, Schema } from "effect"
import { AttemptError } from "../domain/Webhook.ts"

/** There was no answer. */
export class NoAnswer extends Schema.TaggedError<NoAnswer>()("NoAnswer", { error: AttemptError }) {}

export class WebhookSender extends Context.Service<WebhookSender, {
  /** Answers with the status. It is broken off by interruption: the wall clock is the caller's. */
  readonly post: (
    url: string,
    headers: Readonly<Record<string, string>>,
    body: Uint8Array
  ) => Effect.Effect<number, NoAnswer>
}>()("async-task-service/services/WebhookSender") {}
