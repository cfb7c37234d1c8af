/** Black-box tests of invalid requests, metadata, kept requests and reruns. */
import { Effect } from "effect"
import { type Case, terminal } from "./Cases.ts"
import { expect, expectEqual, expectMatch, type Probe } from "./Probe.ts"

/** Bodies, each with the fields that its errors name. */
const invalidBodies: Readonly<Record<string, readonly [object, ...ReadonlyArray<string>]>> = {
  "no assistant_id": [{ assistant_id: undefined }, "assistant_id"],
  "an assistant_id that is a string": [{ assistant_id: "1" }, "assistant_id"],
  "no input": [{ input: [] }, "input"],
  "an unknown input type": [{ input: [{ type: "smell" }] }, "input.0.type"],
  "a file id that is a number": [
    { input: [{ type: "file", file: { id: 1, name: "a.txt", mime_type: "text/plain" } }] },
    "input.0.file.id"
  ],
  "a max_execution_time above 86400": [{ max_execution_time: 86_401 }, "max_execution_time"],
  "an invalid callback_url": [{ callback_url: "nowhere" }, "callback_url"],
  "a callback_url of 2049 characters": [{ callback_url: `https://a.example/${"x".repeat(2031)}` }, "callback_url"],
  "a callback_secret of 256 characters": [{ callback_secret: "x".repeat(256) }, "callback_secret"],
  "several fields": [
    {
      assistant_id: 0,
      input: [{ type: "sound" }, { type: "file", file: { id: 3, name: "a\0b", mime_type: "x" } }, null],
      callback_url: "ftp://example.org",
      client_tools: [{ name: "a", inputSchema: {} }, { name: "a", input_schema: {} }],
      turns: [{ role: "robot", content: 1 }, { role: "user", content: null }]
    },
    "assistant_id",
    "input.0.type",
    "input.1.file.id",
    "input.1.file.name",
    "input.2",
    "callback_url",
    "client_tools.1.name",
    "turns.0.role",
    "turns.0.content",
    "turns.1.content"
  ]
}

/** A label that no other run of the cases has. */
const labelled = Effect.fnUntraced(function*({ create, waitForStatus }: Probe) {
  const metadata = { run: crypto.randomUUID(), "a]b": "é 😀, 2", ["__proto__"]: "" }
  const created = yield* create({ metadata, max_execution_time: 600 })
  yield* waitForStatus(created.uuid, terminal)
  return { metadata, uuid: String(created.uuid) }
})

export const requestCases: ReadonlyArray<Case> = [
  ...Object.entries(invalidBodies).map(([name, [more, ...fields]]): Case => ({
    section: "Errors",
    name: `returns 422 and names what is invalid for ${name}`,
    run: Effect.fnUntraced(function*({ expectStatus, assistant }) {
      const body = { assistant_id: assistant, input: [{ type: "text", text: "?" }], ...more }
      const answer = yield* expectStatus(422, "POST", "/api/tasks", { body })
      yield* expect(typeof answer.body.message === "string", "the body has no message")
      yield* expectEqual("fields", Object.keys(answer.body.errors ?? {}).toSorted(), fields.toSorted())
      yield* expect(Object.values(answer.body.errors).every(Array.isArray), "a field has no array of errors")
    })
  })),
  {
    section: "Create",
    name: "uses the default for model and image generator ids that the assistant does not have",
    run: Effect.fnUntraced(function*({ create, waitForStatus }) {
      const created = yield* create({ llm_model_id: -1, image_generator_id: 0 })
      const task = yield* waitForStatus(created.uuid, terminal)
      yield* expectEqual("status", task.status, "completed")
    })
  },
  {
    section: "Errors",
    name: "returns 422 for a body that is not a JSON object",
    run: Effect.fnUntraced(function*({ expectStatus }) {
      for (const text of ["", "{", "[]", "null", "1"]) {
        const { body } = yield* expectStatus(422, "POST", "/api/tasks", { text })
        yield* expectEqual("fields", Object.keys(body.errors ?? {}), ["body"])
      }
    })
  },
  {
    section: "Metadata",
    name: "is returned only with include=metadata, and filters the list",
    run: Effect.fnUntraced(function*(probe) {
      const { expectStatus } = probe
      const { metadata, uuid } = yield* labelled(probe)
      const plain = yield* expectStatus(200, "GET", `/api/tasks/${uuid}`)
      yield* expect(!("metadata" in plain.body), "a task has metadata without include")
      const task = yield* expectStatus(200, "GET", `/api/tasks/${uuid}?include=metadata`)
      const sorted = (labels: object) => Object.entries(labels).toSorted()
      yield* expectEqual("metadata", sorted(task.body.metadata), sorted(metadata))
      const query = `status=completed&metadata[run]=${metadata.run}&metadata[a]b]=${
        encodeURIComponent(metadata["a]b"])
      }`
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
