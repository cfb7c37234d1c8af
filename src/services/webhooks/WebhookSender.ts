/** Makes exactly one POST to a webhook target: it follows no redirect and never retries. */
import { Context, type Effect, Schema } from "effect"
import { AttemptError } from "../../domain/Webhook.ts"

/** The attempt ended without an HTTP status. */
export class DeliveryError extends Schema.TaggedError<DeliveryError>()("DeliveryError", { error: AttemptError }) {
  override get message() {
    return this.error
  }
}

export class WebhookSender extends Context.Service<WebhookSender, {
  /** Returns the status. Interruption aborts the request; the caller sets the timeout. */
  readonly post: (
    url: string,
    headers: Readonly<Record<string, string>>,
    body: Uint8Array
  ) => Effect.Effect<number, DeliveryError>
}>()("async-task-service/services/webhooks/WebhookSender") {}

/** Whether webhooks may go to a URL, before any is sent. */
export class WebhookTargets extends Context.Service<WebhookTargets, {
  /** Fails with `address_refused` as an attempt would at this moment. A name that is not resolved now may be later. */
  readonly check: (url: string) => Effect.Effect<void, DeliveryError>
}>()("async-task-service/services/webhooks/WebhookSender/WebhookTargets") {}
