/** The condition for which the test kit waits, so that tests need no sleep. */
import { Effect } from "effect"
import { now } from "../../domain/Timestamp.ts"
import { WebhookStore } from "../../services/store/WebhookStore.ts"

/** Lets all fibers run that do not wait for the clock. */
export const runPending = Effect.promise(() => new Promise<void>((resolve) => setImmediate(resolve)))

/** Completes when no webhook is due: each was attempted, and the outcome is recorded. */
export const webhooksSent = Effect.gen(function*() {
  const store = yield* WebhookStore
  while (true) {
    const at = yield* now
    const pending = yield* Effect.orDie(store.find({ state: "pending", limit: Infinity }))
    // Null while an attempt is in flight.
    if (pending.every(({ nextAttemptAt }) => nextAttemptAt !== null && nextAttemptAt > at)) return
    yield* runPending
  }
})
