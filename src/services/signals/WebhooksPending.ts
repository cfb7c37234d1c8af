/** Tells the dispatcher of webhooks that one may have become due, and where its next claim begins. */
import { Context, Latch, Layer } from "effect"
import type { Timestamp } from "../../domain/Timestamp.ts"
import * as ScanFloor from "../timing/ScanFloor.ts"

export class WebhooksPending extends Context.Service<WebhooksPending, {
  /** The dispatcher closes it before it claims. */
  readonly latch: Latch.Latch
  readonly floor: ScanFloor.ScanFloor
  /** A delivery was committed that is due since `at`. */
  readonly add: (at: Timestamp) => void
}>()("async-task-service/services/signals/WebhooksPending") {
  static readonly layer = Layer.sync(WebhooksPending, () => {
    const latch = Latch.makeUnsafe()
    const floor = ScanFloor.make()
    return WebhooksPending.of({
      latch,
      floor,
      add: (at) => {
        floor.lower(at)
        latch.openUnsafe()
      }
    })
  })
}
