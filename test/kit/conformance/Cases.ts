/** Black-box tests of the public interface. No case leaves an active task behind. */
import { Effect } from "effect"
import { expect, expectEqual, expectMatch, type Mismatch, type Probe } from "./Probe.ts"

export interface Case {
  /** The part of the interface that the case tests. */
  readonly section: string
  readonly name: string
  readonly run: (probe: Probe) => Effect.Effect<void, Mismatch>
}

export const terminal = ["completed", "failed", "canceled"]
const uuidForm = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/
const momentForm = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$/
const unknownId = "00000000-0000-7000-8000-000000000000"
const tools = [{ type: "function", name: "look" }]

const file = (name: string, type: string, content = "hello") => {
  const form = new FormData()
  form.append("file", new Blob([content], { type }), name)
  return form
}

/** Creates a task and returns it when it is interrupted. */
const createInterrupted = (probe: Probe) =>
  Effect.flatMap(
    probe.create({ assistant_id: probe.toolsAssistant, client_tools: tools }, "call look"),
    ({ uuid }) => probe.waitForStatus(uuid, [...terminal, "interrupted"])
  )

export const cases: ReadonlyArray<Case> = [
  {
    section: "Authentication",
    name: "returns 401 for a missing or invalid token",
    run: Effect.fnUntraced(function*({ expectStatus }) {
      for (const token of [null, "not-a-token", "a.b.c"]) {
        for (const path of ["/api/tasks", `/api/tasks/${unknownId}`, "/api/storage/base"]) {
          yield* expectStatus(401, "GET", path, { token })
        }
        yield* expectStatus(401, "POST", "/api/tasks", { token, body: {} })
      }
    })
  },
  {
    section: "POST /api/tasks",
    name: "returns uuid, status and max_execution_time, and the task completes",
    run: Effect.fnUntraced(function*({ expectStatus, create, waitForStatus }) {
      const created = yield* create({ max_execution_time: 600 })
      yield* expectMatch("uuid", created.uuid, uuidForm)
      yield* expectEqual("status", created.status, "pending")
      yield* expectEqual("max_execution_time", created.max_execution_time, 600)
      const task = yield* waitForStatus(created.uuid, terminal)
      yield* expectEqual("status", task.status, "completed")
      yield* expectEqual("keys", Object.keys(task).toSorted(), [
        "completed_at",
        "created_at",
        "error",
        "status",
        "turn",
        "uuid"
      ])
      yield* expectMatch("created_at", task.created_at, momentForm)
      yield* expectMatch("completed_at", task.completed_at, momentForm)
      yield* expectEqual("error", task.error, null)
      for (const key of ["output", "messages", "metadata"]) yield* expect(key in task.turn, `turn has no ${key}`)
      yield* expectStatus(409, "POST", `/api/tasks/${created.uuid}/cancel`, { body: {} })
      yield* expectStatus(409, "POST", `/api/tasks/${created.uuid}/tool-results`, { body: { results: [] } })
    })
  },
  {
    section: "POST /api/tasks",
    name: "max_execution_time defaults to 86400",
    run: Effect.fnUntraced(function*({ create, waitForStatus }) {
      const { max_execution_time, uuid } = yield* create()
      yield* expectEqual("max_execution_time", max_execution_time, 86_400)
      yield* waitForStatus(uuid, terminal)
    })
  },
  {
    section: "GET /api/tasks",
    name: "lists newest first with meta and without turn, and accepts all forms of the status filter",
    run: Effect.fnUntraced(function*({ expectStatus, create, waitForStatus }) {
      const first = yield* create()
      yield* waitForStatus(first.uuid, terminal)
      const second = yield* create()
      yield* waitForStatus(second.uuid, terminal)
      const page = yield* expectStatus(200, "GET", "/api/tasks?per_page=2")
      yield* expectEqual("uuids", page.body.data.map(({ uuid }: { uuid: string }) => uuid), [second.uuid, first.uuid])
      yield* expect(!("turn" in page.body.data[0]), "a row has a turn")
      const { current_page, last_page, per_page, total } = page.body.meta
      yield* expectEqual("meta", [current_page, per_page, last_page], [1, 2, Math.max(1, Math.ceil(total / 2))])
      const far = yield* expectStatus(200, "GET", "/api/tasks?page=1000000000&per_page=2")
      yield* expectEqual("page beyond the last one", far.body, {
        data: [],
        meta: { ...page.body.meta, current_page: 1e9 }
      })
      for (const query of ["status=completed", "status=completed,failed", "status[]=completed&status[]=failed"]) {
        const { body } = yield* expectStatus(200, "GET", `/api/tasks?${query}`)
        const uuids = body.data.map(({ uuid }: { uuid: string }) => uuid)
        yield* expect(uuids.includes(second.uuid), `${query} does not list the completed task`)
      }
      const pending = yield* expectStatus(200, "GET", "/api/tasks?status=pending")
      yield* expect(
        pending.body.data.every(({ status }: { status: string }) => status === "pending"),
        "status=pending lists tasks with another status"
      )
    })
  },
  {
    section: "GET /api/tasks",
    name: "returns 422 for an unknown status and for an invalid page",
    run: Effect.fnUntraced(function*({ expectStatus }) {
      const queries = [
        "status=sleeping",
        "status=completed,sleeping",
        "status[]=sleeping",
        "page=0",
        "per_page=0",
        "per_page=101",
        "page=x"
      ]
      for (const query of queries) yield* expectStatus(422, "GET", `/api/tasks?${query}`)
    })
  },
  {
    section: "GET /api/tasks/{uuid}",
    name: "returns 404 for an unknown task",
    run: Effect.fnUntraced(function*({ expectStatus }) {
      for (const uuid of [unknownId, "nonsense"]) {
        yield* expectStatus(404, "GET", `/api/tasks/${uuid}`)
        yield* expectStatus(404, "POST", `/api/tasks/${uuid}/cancel`, { body: {} })
        yield* expectStatus(404, "POST", `/api/tasks/${uuid}/tool-results`, { body: { results: [] } })
      }
    })
  },
  {
    section: "GET /api/tasks/{uuid}",
    name: "returns 403 for another user's task and does not list it",
    run: Effect.fnUntraced(function*({ expectStatus, create, otherToken, waitForStatus }) {
      const token = otherToken
      const { uuid } = yield* create()
      // The owner is checked before the rest of the request.
      for (const query of ["", "?wait=x", "?include=x"]) {
        yield* expectStatus(403, "GET", `/api/tasks/${uuid}${query}`, { token })
      }
      for (const path of ["cancel", "tool-results"]) {
        yield* expectStatus(403, "POST", `/api/tasks/${uuid}/${path}`, { token, text: "not json" })
      }
      yield* expectStatus(403, "DELETE", `/api/tasks/${uuid}`, { token })
      const { body } = yield* expectStatus(200, "GET", "/api/tasks?per_page=100", { token })
      yield* expect(
        body.data.every((row: { uuid: string }) => row.uuid !== uuid),
        "another user's list contains the task"
      )
      yield* waitForStatus(uuid, terminal)
    })
  },
  {
    section: "States and transitions",
    name: "a client tool call interrupts the task, and tool results resume it",
    run: Effect.fnUntraced(function*(probe) {
      const task = yield* createInterrupted(probe)
      yield* expectEqual("status", task.status, "interrupted")
      const [call] = task.pending_tool_calls
      yield* expectEqual("name", call.name, "look")
      yield* expect(typeof call.id === "string" && typeof call.arguments === "object", "a call lacks id or arguments")
      const path = `/api/tasks/${task.uuid}/tool-results`
      yield* probe.expectStatus(422, "POST", path, { body: { results: [] } })
      yield* probe.expectStatus(422, "POST", path, { body: { results: [{ tool_call_id: "none", output: 1 }] } })
      const listed = yield* probe.expectStatus(200, "GET", "/api/tasks?status=interrupted")
      yield* expect(
        listed.body.data.some((row: { uuid: string; pending_tool_calls?: unknown }) =>
          row.uuid === task.uuid && row.pending_tool_calls
        ),
        "the list does not contain the pending tool calls"
      )
      const resumed = yield* probe.expectStatus(200, "POST", path, {
        body: { results: [{ tool_call_id: call.id, output: 42 }] }
      })
      yield* expectEqual("status", resumed.body.status, "processing")
      const done = yield* probe.waitForStatus(task.uuid, terminal)
      yield* expectEqual("status", done.status, "completed")
      yield* expect(!("pending_tool_calls" in done), "a completed task has pending_tool_calls")
    })
  },
  {
    section: "POST /api/tasks/{uuid}/cancel",
    name: "cancels an interrupted task with the reason in error; canceled is final",
    run: Effect.fnUntraced(function*(probe) {
      const { uuid } = yield* createInterrupted(probe)
      const path = `/api/tasks/${uuid}/cancel`
      yield* probe.expectStatus(422, "POST", path, { body: { reason: "x".repeat(1001) } })
      const canceled = yield* probe.expectStatus(200, "POST", path, { body: { reason: "no longer needed" } })
      yield* expectEqual("response", [canceled.body.uuid, canceled.body.status], [uuid, "canceled"])
      const { body } = yield* probe.expectStatus(200, "GET", `/api/tasks/${uuid}`)
      yield* expectEqual("task", [body.status, body.error], ["canceled", "no longer needed"])
      yield* expectMatch("completed_at", body.completed_at, momentForm)
      yield* probe.expectStatus(409, "POST", path, { body: {} })
    })
  },
  {
    section: "GET /api/tasks/{uuid}/events",
    name: "sends the events of an ended task and ends, with include=turn too, and returns 422 for an unknown include",
    run: Effect.fnUntraced(function*({ create, expectStatus, waitForStatus }) {
      const { uuid } = yield* create()
      yield* waitForStatus(uuid, terminal)
      for (const query of ["", "?include=turn"]) {
        const { body } = yield* expectStatus(200, "GET", `/api/tasks/${uuid}/events${query}`)
        yield* expectMatch("stream", body, /^event: pending\n[^]*^event: completed\n/m)
      }
      yield* expectStatus(422, "GET", `/api/tasks/${uuid}/events?include=other`)
    })
  },
  {
    section: "DELETE /api/tasks/{uuid}",
    name: "deletes a task that has ended, and a repeated create still returns it",
    run: Effect.fnUntraced(function*(probe) {
      const { expectStatus } = probe
      const body = { assistant_id: probe.assistant, input: [{ type: "text", text: "1 + 1" }] }
      const headers = { "idempotency-key": crypto.randomUUID() }
      const { uuid } = (yield* expectStatus(201, "POST", "/api/tasks", { body, headers })).body
      yield* probe.waitForStatus(uuid, terminal)
      yield* expectStatus(204, "DELETE", `/api/tasks/${uuid}`)
      yield* expectStatus(404, "DELETE", `/api/tasks/${uuid}`)
      yield* expectStatus(404, "GET", `/api/tasks/${uuid}`)
      const replayed = yield* expectStatus(201, "POST", "/api/tasks", { body, headers })
      yield* expectEqual("uuid", replayed.body.uuid, uuid)
      yield* expectEqual("Idempotent-Replayed", replayed.headers["idempotent-replayed"], "true")
      yield* expectStatus(404, "GET", `/api/tasks/${uuid}`)
    })
  },
  {
    section: "DELETE /api/tasks/{uuid}",
    name: "returns 409 for a task that has not ended",
    run: Effect.fnUntraced(function*(probe) {
      const { uuid } = yield* createInterrupted(probe)
      const { body } = yield* probe.expectStatus(409, "DELETE", `/api/tasks/${uuid}`)
      yield* expectEqual("message", body.message, "The task is interrupted. Only a task that has ended can be deleted.")
      yield* probe.expectStatus(200, "POST", `/api/tasks/${uuid}/cancel`, { body: {} })
      yield* probe.expectStatus(204, "DELETE", `/api/tasks/${uuid}`)
    })
  },
  {
    section: "Limits",
    name: "allows 5 active tasks, even for parallel requests; cancel-interrupted releases them",
    run: Effect.fnUntraced(function*(probe) {
      yield* probe.expectStatus(200, "POST", "/api/tasks/cancel-interrupted")
      const body = {
        assistant_id: probe.toolsAssistant,
        input: [{ type: "text", text: "call look" }],
        client_tools: tools
      }
      const answers = yield* Effect.all(Array.from({ length: 12 }, () => probe.send("POST", "/api/tasks", { body })), {
        concurrency: "unbounded"
      })
      const created = answers.filter(({ status }) => status === 201)
      const refused = answers.filter(({ status }) => status === 429)
      yield* expectEqual("created and refused", [created.length, refused.length], [5, 7])
      yield* expectMatch("message", refused[0]?.body.message, /too many active tasks.*maximum is 5 concurrent tasks/i)
      yield* expectMatch("Retry-After", refused[0]?.headers["retry-after"], /^\d+$/)
      yield* Effect.forEach(created, ({ body }) => probe.waitForStatus(body.uuid, [...terminal, "interrupted"]), {
        concurrency: "unbounded",
        discard: true
      })
      const canceled = yield* probe.expectStatus(200, "POST", "/api/tasks/cancel-interrupted")
      yield* expectEqual("canceled", canceled.body.canceled, 5)
      yield* expectEqual("uuids", canceled.body.uuids.toSorted(), created.map(({ body }) => body.uuid).toSorted())
    })
  },
  {
    section: "POST /api/files",
    name: "uploads a file that is a valid input item and can be downloaded without a token",
    run: Effect.fnUntraced(function*({ expectStatus, create, send, waitForStatus, url }) {
      const { body } = yield* expectStatus(201, "POST", "/api/files", { form: file("Größe 1.txt", "text/plain") })
      const { id, provider_data } = body.file
      const expected = { id, name: "Größe 1.txt", mime_type: "text/plain", provider_data }
      yield* expectEqual("body", body, { type: "file", file: expected })
      yield* expect(typeof id === "string", "file.id is not a string")
      const { uuid } = yield* create({ input: [body] })
      yield* waitForStatus(uuid, terminal)
      const base = (yield* expectStatus(200, "GET", "/api/storage/base")).body.url
      yield* expectMatch("url", base, /^https?:\/\/.*[^/]$/)
      const link = `${base}/${body.file.provider_data.path}`
      // A storage on another host may not be reachable from this machine.
      if (!link.startsWith(`${url}/`)) return
      const downloaded = yield* send("GET", link.slice(url.length), { token: null })
      yield* expectEqual("content", [downloaded.status, downloaded.body], [200, "hello"])
    })
  },
  {
    section: "POST /api/files",
    name: "returns 422 on file for an unsupported format and for a missing file",
    run: Effect.fnUntraced(function*({ expectStatus }) {
      const refused = yield* expectStatus(422, "POST", "/api/files", {
        form: file("virus.exe", "application/octet-stream")
      })
      yield* expect(Array.isArray(refused.body.errors?.file), "errors has no file")
      const empty = new FormData()
      empty.append("other", "x")
      yield* expectStatus(422, "POST", "/api/files", { form: empty })
    })
  }
]
