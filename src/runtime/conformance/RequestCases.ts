/** Black-box tests of metadata, kept requests and reruns. */
import { Effect } from "effect"
import { type Case, terminal } from "./Cases.ts"
import { expect, expectEqual, expectMatch, type Probe } from "./Probe.ts"

/** A label that no other run of the cases has. */
const labelled = Effect.fnUntraced(function*({ create, waitForStatus }: Probe) {
  const metadata = { run: crypto.randomUUID(), "a]b": "é 😀" }
  const created = yield* create({ metadata, max_execution_time: 600 })
  yield* waitForStatus(created.uuid, terminal)
  return { metadata, uuid: String(created.uuid) }
})

export const requestCases: ReadonlyArray<Case> = [
  {
    section: "Metadata",
    name: "is returned only with include=metadata, and filters the list",
    run: Effect.fnUntraced(function*(probe) {
      const { expectStatus } = probe
      const { metadata, uuid } = yield* labelled(probe)
      const plain = yield* expectStatus(200, "GET", `/api/tasks/${uuid}`)
      yield* expect(!("metadata" in plain.body), "a task has metadata without include")
      const task = yield* expectStatus(200, "GET", `/api/tasks/${uuid}?include=metadata`)
      yield* expectEqual("run", task.body.metadata?.run, metadata.run)
      yield* expectEqual("a]b", task.body.metadata?.["a]b"], metadata["a]b"])
      const query = `metadata[run]=${metadata.run}&metadata[a]b]=${encodeURIComponent(metadata["a]b"])}`
      const { body } = yield* expectStatus(200, "GET", `/api/tasks?${query}&include=metadata`)
      yield* expectEqual("uuids", body.data.map((row: { uuid: string }) => row.uuid), [uuid])
      yield* expectEqual("run in the list", body.data[0].metadata.run, metadata.run)
      const none = yield* expectStatus(200, "GET", `/api/tasks?metadata[run]=${metadata.run}&metadata[a]b]=x`)
      yield* expectEqual("total", none.body.meta.total, 0)
    })
  },
  {
    section: "Metadata",
    name: "returns 422 for invalid metadata, filters and includes",
    run: Effect.fnUntraced(function*({ expectStatus }) {
      const input = [{ type: "text", text: "x" }]
      for (const value of [1, null, "x".repeat(513)]) {
        const body = { assistant_id: 1, input, metadata: { label: value } }
        const refused = yield* expectStatus(422, "POST", "/api/tasks", { body })
        yield* expectEqual("fields", Object.keys(refused.body.errors ?? {}), ["metadata.label"])
      }
      const four = ["a", "b", "c", "d"].map((key) => `metadata[${key}]=x`).join("&")
      for (const query of [four, "metadata=x", "metadata[a]=", "include=request", "include="]) {
        yield* expectStatus(422, "GET", `/api/tasks?${query}`)
      }
    })
  },
  {
    section: "POST /api/tasks/{uuid}/rerun",
    name: "creates a task with the request of an ended one and replaces fields",
    run: Effect.fnUntraced(function*(probe) {
      const { expectStatus, waitForStatus } = probe
      const { metadata, uuid } = yield* labelled(probe)
      const input = [{ type: "text", text: "What is 6 * 8?" }]
      const path = `/api/tasks/${uuid}/rerun`
      const again = yield* expectStatus(201, "POST", path, { body: { input, max_execution_time: 300 } })
      yield* expectEqual("response", [again.body.status, again.body.max_execution_time], ["pending", 300])
      yield* expectMatch("Location", again.headers["location"], new RegExp(`/api/tasks/${again.body.uuid}$`))
      yield* waitForStatus(again.body.uuid, terminal)
      const { body } = yield* expectStatus(200, "GET", `/api/tasks/${again.body.uuid}?include=request`)
      yield* expectEqual("input", body.request.input, input)
      yield* expectEqual("assistant_id", body.request.assistant_id, probe.assistant)
      yield* expectEqual("metadata", body.request.metadata.run, metadata.run)
      yield* expect(!JSON.stringify(body.request).includes("secret"), "the request has a secret")
      yield* expectStatus(422, "POST", path, { body: { input: null } })
    })
  }
]
