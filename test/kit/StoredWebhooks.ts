/** Deliveries that a store has inserted, and the steps of their attempts. */
import { assert } from "@effect/vitest"
import { Duration, Effect } from "effect"
import type { TaskId } from "../../src/domain/Task.ts"
import { now, plus, type Timestamp } from "../../src/domain/Timestamp.ts"
import { type AttemptError, delays } from "../../src/domain/Webhook.ts"
import type { NewTask } from "../../src/services/store/tasks/TaskStore.ts"
import {
  type ClaimedDelivery,
  type ClaimPermits,
  WebhookStore
} from "../../src/services/store/webhooks/WebhookStore.ts"
import { stored } from "./StoredTasks.ts"

export const unlimited: ClaimPermits = {
  byOrigin: new Map(),
  ofProven: 10_000,
  ofUnproven: 10_000,
  byUser: new Map(),
  ofUser: { total: 10_000, unproven: 10_000 },
  unproven: 10_000
}

/** The leases of the five attempts. */
export const leases = [40, 60, 90, 150, 20].map((seconds) => Duration.seconds(seconds))
let origins = 0

/** Creates a task with a unique callback origin, so that tests do not claim each other's deliveries. */
export const called = Effect.fnUntraced(function*(
  callbackSecret: string | null = null,
  url?: string,
  callbackFormat: string | null = null,
  more: Partial<NewTask> = {}
) {
  origins += 1
  const callbackUrl = url ?? `http://target-${origins}.example:8080/hook?x=1`
  return {
    ...(yield* stored({ callbackUrl, callbackSecret, callbackFormat, ...more })),
    origin: new URL(callbackUrl).origin
  }
})

/** Claims whatever is due, with all permits except those given. Returns the deliveries to `origin`, or all. */
export const claimAll = Effect.fnUntraced(
  function*(
    { limit = 10_000, lostBefore, origin, ...permits }: Partial<ClaimPermits> & {
      readonly origin?: string
      readonly limit?: number
      readonly lostBefore?: Timestamp
    }
  ) {
    const store = yield* WebhookStore
    const at = yield* now
    const request = { at, lostBefore: lostBefore ?? at, limit, permits: { ...unlimited, ...permits }, leases }
    const { deliveries } = yield* store.claim(request)
    return deliveries.filter((delivery) => origin === undefined || delivery.origin === origin)
  }
)

export const claim = (origin: string, more: Partial<ClaimPermits> = {}) => claimAll({ origin, ...more })

export const record = Effect.fnUntraced(
  function*(
    { attempt, happenedAt, isLast, origin, revision, sub, taskId }: ClaimedDelivery,
    error: AttemptError | null
  ) {
    const store = yield* WebhookStore
    const endedAt = yield* now
    yield* store.recordOutcomes([{
      taskId,
      revision,
      happenedAt,
      sub,
      origin,
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
