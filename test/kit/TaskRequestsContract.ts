/** The contract of what `TaskStore` keeps of requests, run on memory and on Postgres. */
import { assert } from "@effect/vitest"
import { Effect, Option, Struct } from "effect"
import { OpaqueJson } from "../../src/domain/json/OpaqueJson.ts"
import * as Limits from "../../src/domain/Limits.ts"
import { KeptFields } from "../../src/domain/TaskRequest.ts"
import { Timestamp } from "../../src/domain/Timestamp.ts"
import { TaskStore } from "../../src/services/store/tasks/TaskStore.ts"
import { commit, makeTask, stored, type StoreTests } from "./StoredTasks.ts"

/** A request of `bytes` bytes in fewer characters. */
const requestOf = (bytes: number) => OpaqueJson.make(`"${"é".repeat((bytes - 2) / 2)}"`)

export const contract = (it: StoreTests) => {
  it.effect("returns a request of a live and of an ended task up to its maximum size", () =>
    Effect.gen(function*() {
      const store = yield* TaskStore
      const callbackUrl = "https://client.example/hook"
      const metadata = { ["__proto__"]: "x", "é\"\\": "😀" }
      const request = requestOf(Limits.keptRequestBytes)
      const kept = yield* stored({ callbackUrl, callbackSecret: "sealed", metadata, request })
      const larger = yield* stored({ request: requestOf(Limits.keptRequestBytes + 2) })
      for (const tag of ["Accepted", "Interrupted", "Canceled"] as const) {
        for (const { uuid } of [kept, larger]) yield* commit(uuid, tag)
        assert.deepStrictEqual(Option.getOrThrow(yield* store.storedRequest(kept.uuid)), {
          ...Struct.pick(kept, Struct.keys(KeptFields.fields)),
          request
        })
        assert.isTrue(Option.isNone(yield* store.storedRequest(larger.uuid)))
      }
      const { uuid } = yield* makeTask()
      assert.isTrue(Option.isNone(yield* store.storedRequest(uuid)))
    }))

  it.effect("lists by metadata and status, and returns metadata to its user only", () =>
    Effect.gen(function*() {
      const store = yield* TaskStore
      const { principal } = yield* makeTask()
      const at = (second: number) => Timestamp.make(1_764_000_000_000_000 + second)
      const labels = [{ env: "prod", order: "1" }, { env: "prod", order: "2" }, { env: "test" }, null, { prod: "env" }]
      const tasks = yield* Effect.forEach(labels, (metadata, n) => stored({ principal, metadata, createdAt: at(n) }))
      const other = yield* stored({ metadata: { env: "prod" } })
      yield* commit(tasks[0]!.uuid, "Completed")
      const list = (metadata: Record<string, string>, more: object = {}) =>
        Effect.map(
          store.list({ sub: principal.sub, statuses: [], page: 1, perPage: 25, metadata, ...more }),
          ({ tasks, total }) => [tasks.map(({ createdAt }) => createdAt % 10), total]
        )
      assert.deepStrictEqual(yield* list({ env: "prod" }), [[1, 0], 2])
      assert.deepStrictEqual(yield* list({ env: "prod" }, { perPage: 1, page: 2 }), [[0], 2])
      assert.deepStrictEqual(yield* list({ env: "prod" }, { page: 3 }), [[], 2])
      assert.deepStrictEqual(yield* list({ env: "prod" }, { statuses: ["completed"] }), [[0], 1])
      assert.deepStrictEqual(yield* list({ env: "prod" }, { statuses: ["failed"] }), [[], 0])
      assert.deepStrictEqual(yield* list({ env: "prod", order: "2" }), [[1], 1])
      assert.deepStrictEqual(yield* list({ env: "test", order: "2" }), [[], 0])
      assert.deepStrictEqual(yield* list({ env: "PROD" }), [[], 0])
      const uuids = [...tasks, other].map(({ uuid }) => uuid)
      const found = yield* store.metadata(principal.sub, uuids)
      assert.deepStrictEqual(uuids.map((uuid) => found.get(uuid) ?? null), [...labels, null])
    }))
}
