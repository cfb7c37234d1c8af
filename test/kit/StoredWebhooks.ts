/** Deliveries that a store has inserted, and the steps of their attempts. */
import { assert } from "@effect/vitest"
import { Duration, Effect } from "effect"
import type { TaskId } from "../../src/domain/Task.ts"
import { now, plus } from "../../src/domain/Timestamp.ts"
import { type AttemptError, delays } from "../../src/domain/Webhook.ts"
import { type ClaimedDelivery, WebhookStore } from "../../src/services/store/WebhookStore.ts"
import { stored } from "./StoredTasks.ts"

/** The leases of the five attempts. */
export const leases = [40, 60, 90, 150, 20].map((seconds) => Duration.seconds(seconds))
let origins = 0

/** Creates a task with a unique callback origin, so that tests do not claim each other's deliveries. */
export const called = Effect.fnUntraced(function*(callbackSecret: string | null = null, url?: string) {
  origins += 1
  const callbackUrl = url ?? `http://target-${origins}.example:8080/hook?x=1`
  return { ...(yield* stored({ callbackUrl, callbackSecret })), origin: new URL(callbackUrl).origin }
})

export const claim = Effect.fnUntraced(
  function*(
    origin: string,
    more: { readonly permits?: ReadonlyMap<string, number>; readonly permitsOfOthers?: number } = {}
  ) {
    const store = yield* WebhookStore
    const { deliveries } = yield* store.claim({
      at: yield* now,
      limit: 10_000,
      permits: new Map(),
      permitsOfOthers: 100,
      leases,
      ...more
    })
    return deliveries.filter((delivery) => delivery.origin === origin)
  }
)

export const record = Effect.fnUntraced(
  function*({ attempt, isLast, revision, taskId }: ClaimedDelivery, error: AttemptError | null) {
    const store = yield* WebhookStore
    const endedAt = yield* now
    yield* store.recordOutcomes([{
      taskId,
      revision,
      attempt,
      endedAt,
      duration: 12,
      responseStatus: error === "not_2xx" ? 500 : error === null ? 204 : null,
      error,
      nextAttemptAt: error === null || isLast ? null : plus(endedAt, (yield* delays)[attempt - 1]!)
    }])
  }
)

export const only = Effect.fnUntraced(function*(uuid: TaskId) {
  const store = yield* WebhookStore
  const [delivery, ...others] = yield* store.ofTask(uuid)
  assert.deepStrictEqual(others, [])
  return delivery!
})
