/** The contract of redelivery for every delivery store, run on memory and on Postgres. */
import { assert } from "@effect/vitest"
import { Effect, Option } from "effect"
import { TestClock } from "effect/testing"
import * as Limits from "../../src/domain/Limits.ts"
import type { TaskId } from "../../src/domain/Task.ts"
import { now } from "../../src/domain/Timestamp.ts"
import type { DeliveryKey } from "../../src/domain/Webhook.ts"
import { WebhookStore } from "../../src/services/store/webhooks/WebhookStore.ts"
import { commit, type StoreTests } from "./StoredTasks.ts"
import { called, claim, only, record } from "./StoredWebhooks.ts"

export const redeliveryContract = (it: StoreTests) => {
  it.effect("redelivers with one more attempt, after an attempt in flight, or earlier than a scheduled one", () =>
    Effect.gen(function*() {
      const store = yield* WebhookStore
      const { origin, uuid } = yield* called()
      const redeliver = (key: { readonly taskId: TaskId; readonly revision: number }) =>
        Effect.flatMap(now, (at) => store.redeliver(key, at, null, null))
      assert.strictEqual(yield* redeliver({ taskId: uuid, revision: 1 }), "unknown")
      yield* commit(uuid, "Completed")
      const [first] = yield* claim(origin)
      assert.strictEqual(yield* redeliver(first!), "enqueued")
      assert.deepStrictEqual(yield* claim(origin), [])
      yield* record(first!, "connection_failed")
      assert.deepStrictEqual(yield* claim(origin), [])
      assert.strictEqual(yield* redeliver(first!), "enqueued")
      const [second] = yield* claim(origin)
      assert.deepInclude(second, { attempt: 2, isLast: false })
      yield* record(second!, null)
      const [outcomes] = [yield* Effect.forEach([1, 2, 3], () => redeliver(first!), { concurrency: "unbounded" })]
      assert.deepStrictEqual(outcomes, ["enqueued", "enqueued", "enqueued"])
      const [third, ...none] = yield* claim(origin)
      assert.deepStrictEqual(none, [])
      assert.deepInclude(third, { attempt: 3, isLast: true, body: second!.body })
      yield* record(third!, "not_2xx")
      // The delivery succeeded before.
      assert.strictEqual((yield* only(uuid)).state, "delivered")
      assert.deepStrictEqual(yield* claim(origin), [])
    }))

  it.effect("makes one more attempt after the failure of a last one that was in flight when it was asked for", () =>
    Effect.gen(function*() {
      const store = yield* WebhookStore
      const { origin, uuid } = yield* called()
      yield* commit(uuid, "Completed")
      const [first] = yield* claim(origin)
      yield* record({ ...first!, isLast: true }, "not_2xx")
      const redeliver = Effect.flatMap(now, (at) => store.redeliver(first!, at, null, null))
      assert.strictEqual(yield* redeliver, "enqueued")
      const [second] = yield* claim(origin)
      assert.deepInclude(second, { attempt: 2, isLast: true })
      assert.strictEqual(yield* redeliver, "enqueued")
      assert.strictEqual(yield* redeliver, "enqueued")
      assert.deepStrictEqual(yield* claim(origin), [])
      yield* record(second!, "not_2xx")
      assert.strictEqual((yield* only(uuid)).state, "pending")
      const [third] = yield* claim(origin)
      assert.deepInclude(third, { attempt: 3, isLast: true })
      // A success is what was asked for.
      assert.strictEqual(yield* redeliver, "enqueued")
      yield* record(third!, null)
      assert.strictEqual((yield* only(uuid)).state, "delivered")
      assert.deepStrictEqual(yield* claim(origin), [])
    }))

  it.effect("deletes the secret at the first success and keeps that of a failed delivery for redelivery", () =>
    Effect.gen(function*() {
      const store = yield* WebhookStore
      const { origin, uuid } = yield* called("sealed")
      yield* commit(uuid, "Completed")
      const [first] = yield* claim(origin)
      yield* record({ ...first!, isLast: true }, "not_2xx")
      assert.strictEqual((yield* only(uuid)).state, "failed")
      assert.strictEqual(yield* store.redeliver(first!, yield* now, null, null), "enqueued")
      const [second] = yield* claim(origin)
      assert.strictEqual(second?.secret, "sealed")
      yield* record(second!, null)
      assert.strictEqual(yield* store.redeliver(first!, yield* now, null, null), "needs_secret")
      assert.deepStrictEqual(yield* claim(origin), [])
      assert.strictEqual(yield* store.redeliver(first!, yield* now, "sealed again", null), "enqueued")
      const [third] = yield* claim(origin)
      assert.strictEqual(third?.secret, "sealed again")
    }))

  it.effect("limits the redeliveries of a user, with one more allowed each second, and not those of an operator", () =>
    Effect.gen(function*() {
      const store = yield* WebhookStore
      const { origin, principal: { sub }, uuid } = yield* called()
      yield* commit(uuid, "Completed")
      const [first] = yield* claim(origin)
      const redeliver = (by: string | null, key: DeliveryKey = first!) =>
        Effect.flatMap(now, (at) => store.redeliver(key, at, null, by))
      // A refused redelivery does not count against the limit.
      for (let count = 0; count < Limits.redeliveries; count++) {
        assert.strictEqual(yield* redeliver(sub, { taskId: uuid, revision: 99 }), "unknown")
      }
      const racing = yield* Effect.forEach(Array.from({ length: 80 }), () => redeliver(sub), { concurrency: 20 })
      assert.strictEqual(racing.filter((outcome) => outcome === "enqueued").length, Limits.redeliveries)
      assert.deepStrictEqual([...new Set(racing)].toSorted(), ["enqueued", "too_many"])
      assert.strictEqual(yield* redeliver(null), "enqueued")
      assert.strictEqual(yield* redeliver(`${sub} of another name`), "enqueued")
      yield* TestClock.adjust("999 millis")
      assert.strictEqual(yield* redeliver(sub), "too_many")
      yield* TestClock.adjust("1 millis")
      assert.strictEqual(yield* redeliver(sub), "enqueued")
      assert.strictEqual(yield* redeliver(sub), "too_many")
      yield* TestClock.adjust("1 hour")
      for (let count = 0; count < Limits.redeliveries; count++) assert.strictEqual(yield* redeliver(sub), "enqueued")
      assert.strictEqual(yield* redeliver(sub), "too_many")
    }))

  it.effect("limits the attempts of one delivery that its user can request", () =>
    Effect.gen(function*() {
      const store = yield* WebhookStore
      const { origin, principal: { sub }, uuid } = yield* called()
      yield* commit(uuid, "Completed")
      const [first] = yield* claim(origin)
      yield* record(first!, null)
      const redeliver = (by: string | null) => Effect.flatMap(now, (at) => store.redeliver(first!, at, null, by))
      for (let attempt = 2; attempt <= Limits.maxWebhookAttempts; attempt++) {
        yield* TestClock.adjust("1 second")
        assert.strictEqual(yield* redeliver(sub), "enqueued")
        const [next] = yield* claim(origin)
        assert.strictEqual(next?.attempt, attempt)
        yield* record(next!, null)
      }
      assert.strictEqual(yield* redeliver(sub), "exhausted")
      assert.deepStrictEqual(yield* claim(origin), [])
      assert.strictEqual(yield* redeliver(null), "enqueued")
      assert.strictEqual(Option.getOrThrow(yield* store.get(first!)).attempts.length, Limits.maxWebhookAttempts)
    }))
}
