/** The contract of `TaskStore`, run on memory and on Postgres. */
import { assert } from "@effect/vitest"
import { Effect, Option } from "effect"
import { now, plus } from "../../src/domain/Timestamp.ts"
import { TaskStore } from "../../src/services/store/tasks/TaskStore.ts"
import { WebhookStore } from "../../src/services/store/webhooks/WebhookStore.ts"
import { commit, makeTask, stored, type StoreTests } from "./StoredTasks.ts"
import { called, claim, record } from "./StoredWebhooks.ts"

export const contract = (it: StoreTests) => {
  it.effect("deletes tasks that ended long enough ago, with all their rows, in batches", () =>
    Effect.gen(function*() {
      const store = yield* TaskStore
      const { principal } = yield* makeTask()
      const metadata = { env: "prod", order: "1" }
      const ended = yield* Effect.forEach([1, 2, 3], () => stored({ principal, metadata }))
      const live = yield* stored({ principal, metadata })
      for (const { uuid } of ended) yield* commit(uuid, "Completed")
      const at = yield* now
      assert.strictEqual(yield* store.deleteEnded(plus(at, "-1 second"), 10_000), 0)
      const remaining = Effect.map(
        store.list({ sub: principal.sub, statuses: [], page: 1, perPage: 100 }),
        ({ tasks }) => tasks.map(({ uuid }) => uuid)
      )
      assert.strictEqual((yield* remaining).length, 4)
      // Tasks of other suites may have ended earlier than these.
      yield* Effect.repeat(store.deleteEnded(plus(at, "1 second"), 2), { while: (deleted) => deleted === 2 })
      assert.deepStrictEqual(yield* remaining, [live.uuid])
      const labeled = yield* store.list({ sub: principal.sub, statuses: [], metadata, page: 1, perPage: 100 })
      assert.deepStrictEqual([labeled.tasks.length, labeled.total], [1, 1])
      for (const { uuid } of ended) {
        assert.isTrue(Option.isNone(yield* store.get(uuid)))
        assert.deepStrictEqual(yield* store.eventsAfter(uuid, -1, 10), [])
      }
    }))

  it.effect("keeps an ended task while a webhook of it is pending", () =>
    Effect.gen(function*() {
      const store = yield* TaskStore
      const { origin, uuid } = yield* called()
      yield* commit(uuid, "Completed")
      const later = plus(yield* now, "1 second")
      const deleteAll = Effect.repeat(store.deleteEnded(later, 100), { while: (deleted) => deleted === 100 })
      yield* deleteAll
      assert.isTrue(Option.isSome(yield* store.get(uuid)))
      for (const delivery of yield* claim(origin)) yield* record(delivery, null)
      yield* deleteAll
      assert.isTrue(Option.isNone(yield* store.get(uuid)))
    }))

  it.effect("deletes old proofs of webhook origins in batches", () =>
    Effect.gen(function*() {
      const store = yield* TaskStore
      const { origin, uuid } = yield* called()
      yield* commit(uuid, "Interrupted")
      for (const delivery of yield* claim(origin)) yield* record(delivery, null)
      const at = yield* now
      yield* Effect.repeat(store.deleteOrigins(plus(at, "-1 second"), 2), { while: (deleted) => deleted === 2 })
      yield* commit(uuid, "ToolResultsSubmitted")
      yield* commit(uuid, "Interrupted")
      assert.lengthOf(yield* claim(origin, { unproven: 0 }), 1)
      yield* Effect.repeat(store.deleteOrigins(at, 2), { while: (deleted) => deleted === 2 })
      yield* commit(uuid, "Canceled")
      assert.lengthOf(yield* claim(origin, { unproven: 0 }), 0)
    }))

  it.effect("deletes one ended task with its pending webhooks, also while one is sent, and keeps its idempotency key", () =>
    Effect.gen(function*() {
      const store = yield* TaskStore
      const webhooks = yield* WebhookStore
      const { origin, uuid } = yield* called()
      const neighbor = yield* called(null, `${origin}/other`)
      assert.isFalse(yield* store.deleteTask(uuid))
      for (const id of [uuid, neighbor.uuid]) {
        yield* commit(id, "Interrupted")
        yield* commit(id, "Canceled")
      }
      const sent = (yield* claim(origin)).filter(({ taskId }) => taskId === uuid)
      assert.lengthOf(sent, 2)
      yield* record(sent[0]!, "not_2xx")
      assert.isTrue(yield* store.deleteTask(uuid))
      assert.isFalse(yield* store.deleteTask(uuid))
      assert.isTrue(Option.isNone(yield* store.get(uuid)))
      assert.deepStrictEqual(yield* store.eventsAfter(uuid, -1, 10), [])
      yield* record(sent[1]!, null)
      assert.isTrue(Option.isNone(yield* webhooks.get(sent[1]!)))
      assert.deepStrictEqual(yield* webhooks.ofTask(uuid), [])
      assert.strictEqual((yield* commit(uuid, "Completed"))._tag, "Unknown")
      assert.lengthOf(yield* webhooks.ofTask(neighbor.uuid), 2)

      const key = { value: "deleted", fingerprint: "create" }
      const task = yield* makeTask()
      yield* store.create(task, 5, key)
      yield* commit(task.uuid, "Completed")
      assert.isTrue(yield* store.deleteTask(task.uuid))
      const again = yield* store.create(yield* makeTask({ principal: task.principal }), 5, key)
      assert.deepStrictEqual(again, { taskId: task.uuid, isReplay: true, room: null })
    }))
}
