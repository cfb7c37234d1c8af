/** A latch that opens when a webhook may have become due. The dispatcher closes it before it claims. */
import { Context, Latch, Layer } from "effect"

export class WebhooksPending
  extends Context.Service<WebhooksPending, Latch.Latch>()("async-task-service/services/store/WebhooksPending")
{
  static readonly layer = Layer.sync(WebhooksPending, Latch.makeUnsafe)
}
