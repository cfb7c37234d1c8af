/** What every store of deliveries must do when one is requested again; run on memory and on Postgres. */
import { assert, type Vitest } from "@effect/vitest"
import { Effect, Option } from "effect"
import type { SecureRandom } from "effect/crypto"
import { TestClock } from "effect/testing"
import * as Limits from "../../src/domain/Limits.ts"
import type { TaskId } from "../../src/domain/Task.ts"
import { now } from "../../src/domain/Timestamp.ts"
import type { DeliveryKey } from "../../src/domain/Webhook.ts"
import type { TaskNotifications } from "../../src/services/TaskNotifications.ts"
import type { TaskRepository } from "../../src/services/TaskRepository.ts"
import { WebhookStore } from "../../src/services/WebhookStore.ts"
import { commit } from "./TaskRepositoryContract.ts"
import { called, claim, only, settle } from "./WebhookStoreContract.ts"

export const redeliveryContract = (
  it: Vitest.MethodsNonLive<TaskRepository | WebhookStore | TaskNotifications | SecureRandom.SecureRandom>
) => {
  it.effect("a redelivery is one attempt more; it waits for one under way, and hurries one to come", () =>
    Effect.gen(function*() {
      const store = yield* WebhookStore
      const { origin, uuid } = yield* called()
      const redeliver = (key: { readonly taskId: TaskId; readonly revision: number }) =>
        Effect.flatMap(now, (at) => store.redeliver(key, at, null, null))
      assert.strictEqual(yield* redeliver({ taskId: uuid, revision: 1 }), "unknown")
      yield* commit(uuid, "Completed")
      const [first] = yield* claim(origin)
      assert.strictEqual(yield* redeliver(first!), "owed")
      assert.deepStrictEqual(yield* claim(origin), [])
      yield* settle(first!, "connection_failed")
      assert.deepStrictEqual(yield* claim(origin), [])
      assert.strictEqual(yield* redeliver(first!), "owed")
      const [second] = yield* claim(origin)
      assert.deepInclude(second, { attempt: 2, isLast: false })
      yield* settle(second!, null)
      const [outcomes] = [yield* Effect.forEach([1, 2, 3], () => redeliver(first!), { concurrency: "unbounded" })]
      assert.deepStrictEqual(outcomes, ["owed", "owed", "owed"])
      const [third, ...none] = yield* claim(origin)
      assert.deepStrictEqual(none, [])
      assert.deepInclude(third, { attempt: 3, isLast: true, body: second!.body })
      yield* settle(third!, "not_2xx")
      // It was delivered before.
      assert.strictEqual((yield* only(uuid)).state, "delivered")
      assert.deepStrictEqual(yield* claim(origin), [])
    }))

  it.effect("a secret goes with the success that needed it; a failed delivery keeps it, to be asked for again", () =>
    Effect.gen(function*() {
      const store = yield* WebhookStore
      const { origin, uuid } = yield* called("sealed")
      yield* commit(uuid, "Completed")
      const [first] = yield* claim(origin)
      yield* settle({ ...first!, isLast: true }, "not_2xx")
      assert.strictEqual((yield* only(uuid)).state, "failed")
      assert.strictEqual(yield* store.redeliver(first!, yield* now, null, null), "owed")
      const [second] = yield* claim(origin)
      assert.strictEqual(second?.secret, "sealed")
      yield* settle(second!, null)
      assert.strictEqual(yield* store.redeliver(first!, yield* now, null, null), "needs_secret")
      assert.deepStrictEqual(yield* claim(origin), [])
      assert.strictEqual(yield* store.redeliver(first!, yield* now, "sealed again", null), "owed")
      const [third] = yield* claim(origin)
      assert.strictEqual(third?.secret, "sealed again")
    }))

  it.effect("a user's redeliveries are bounded, each second allows one more; an operator's are not", () =>
    Effect.gen(function*() {
      const store = yield* WebhookStore
      const { origin, principal: { sub }, uuid } = yield* called()
      yield* commit(uuid, "Completed")
      const [first] = yield* claim(origin)
      const redeliver = (by: string | null, key: DeliveryKey = first!) =>
        Effect.flatMap(now, (at) => store.redeliver(key, at, null, by))
      // What is refused anyway uses up nothing.
      for (let count = 0; count < Limits.redeliveries; count++) {
        assert.strictEqual(yield* redeliver(sub, { taskId: uuid, revision: 99 }), "unknown")
      }
      const racing = yield* Effect.forEach(Array.from({ length: 80 }), () => redeliver(sub), { concurrency: 20 })
      assert.strictEqual(racing.filter((outcome) => outcome === "owed").length, Limits.redeliveries)
      assert.deepStrictEqual([...new Set(racing)].toSorted(), ["owed", "too_many"])
      assert.strictEqual(yield* redeliver(null), "owed")
      assert.strictEqual(yield* redeliver(`${sub} of another name`), "owed")
      yield* TestClock.adjust("999 millis")
      assert.strictEqual(yield* redeliver(sub), "too_many")
      yield* TestClock.adjust("1 millis")
      assert.strictEqual(yield* redeliver(sub), "owed")
      assert.strictEqual(yield* redeliver(sub), "too_many")
      yield* TestClock.adjust("1 hour")
      for (let count = 0; count < Limits.redeliveries; count++) assert.strictEqual(yield* redeliver(sub), "owed")
      assert.strictEqual(yield* redeliver(sub), "too_many")
    }))

  it.effect("one delivery is not sent again by its user without end", () =>
    Effect.gen(function*() {
      const store = yield* WebhookStore
      const { origin, principal: { sub }, uuid } = yield* called()
      yield* commit(uuid, "Completed")
      const [first] = yield* claim(origin)
      yield* settle(first!, null)
      const redeliver = (by: string | null) => Effect.flatMap(now, (at) => store.redeliver(first!, at, null, by))
      for (let attempt = 2; attempt <= Limits.webhookAttemptsByHand; attempt++) {
        yield* TestClock.adjust("1 second")
        assert.strictEqual(yield* redeliver(sub), "owed")
        const [next] = yield* claim(origin)
        assert.strictEqual(next?.attempt, attempt)
        yield* settle(next!, null)
      }
      assert.strictEqual(yield* redeliver(sub), "exhausted")
      assert.deepStrictEqual(yield* claim(origin), [])
      assert.strictEqual(yield* redeliver(null), "owed")
      assert.strictEqual(Option.getOrThrow(yield* store.get(first!)).attempts.length, Limits.webhookAttemptsByHand)
    }))
}
