/** `run` of the Promise client with tools that misbehave, against a scripted service. */
import { afterEach, assert, beforeEach, describe, it } from "vitest"
import { AbortError } from "../../../../src/http/client/promise/ApiErrors.ts"
import { TaskServiceClient } from "../../../../src/http/client/promise/TaskServiceClient.ts"
import type { ToolFunction } from "../../../../src/http/client/promise/Tools.ts"
import { answerJson as answer } from "../../../kit/LoopbackServer.ts"
import { ScriptedService } from "../../../kit/ScriptedService.ts"

let service: ScriptedService
const task = { uuid: "u", turn: null, error: null, created_at: "", completed_at: null }

/** Interrupts the task once with a call of `look`, and completes it after the results. */
beforeEach(async () => {
  service = await new ScriptedService().listen()
  service.script = ({ method, path }, response) => {
    if (path === "/api/tasks") return answer(response, 201, { uuid: "u" })
    if (method === "POST") return answer(response, 200, { uuid: "u", status: "processing" })
    return answer(
      response,
      200,
      service.received.some(({ path }) => path.endsWith("/tool-results"))
        ? { ...task, status: "completed" }
        : { ...task, status: "interrupted", pending_tool_calls: [{ id: "c", name: "look", arguments: {} }] }
    )
  }
})

afterEach(() => service.close())

const run = (look: ToolFunction, signal?: AbortSignal) =>
  new TaskServiceClient({ baseUrl: service.url, token: "t" }).tasks.run(
    { assistant_id: 1, input: [{ type: "text", text: "Why?" }] },
    { tools: { look }, signal }
  )

describe("run", () => {
  const cycle: Record<string, unknown> = {}
  cycle["self"] = cycle
  for (
    const [kind, output, expected] of [
      ["undefined", undefined, { output: null }],
      ["a function", () => 1, { output: null }],
      ["a date", new Date(0), { output: "1970-01-01T00:00:00.000Z" }],
      ["a bigint", 1n, { is_error: true }],
      ["a cycle", cycle, { is_error: true }]
    ] as const
  ) {
    it(`submits ${kind} that a tool returns as JSON or as an error`, async () => {
      assert.strictEqual((await run(() => output)).status, "completed")
      const sent = JSON.parse(service.received.find(({ path }) => path.endsWith("/tool-results"))?.body ?? "")
      assert.deepInclude(sent.results[0], { tool_call_id: "c", ...expected })
    })
  }

  it("reports each status once", async () => {
    const updates: Array<string> = []
    await new TaskServiceClient({ baseUrl: service.url, token: "t" }).tasks.run(
      { assistant_id: 1, input: [{ type: "text", text: "Why?" }] },
      { tools: { look: () => null }, onUpdate: ({ status }) => updates.push(status) }
    )
    assert.deepStrictEqual(updates, ["interrupted", "processing", "completed"])
  })

  it("reports the whole text before the end, and that the work has begun, also through a poll that brings nothing new", async () => {
    const polls: Array<string | undefined> = []
    service.script = ({ headers, method, path }, response) => {
      if (method === "POST") return answer(response, 201, { uuid: "u" })
      if (path.includes("/events")) return response.writeHead(204).end()
      if (!path.includes("wait")) return answer(response, 200, { ...task, status: "pending" }, { etag: "\"0\"" })
      polls.push(headers["if-none-match"])
      if (polls.length === 1) return response.writeHead(304).end()
      const turn = { output: [{ type: "text", text: "So." }] }
      return answer(
        response,
        200,
        polls.length === 2 ? { ...task, status: "processing" } : { ...task, status: "completed", turn }
      )
    }
    const seen: Array<string> = []
    await new TaskServiceClient({ baseUrl: service.url, token: "t" }).tasks.run(
      { assistant_id: 1, input: [{ type: "text", text: "Why?" }] },
      { onUpdate: ({ status }) => seen.push(status), onText: (text) => seen.push(text) }
    )
    assert.deepStrictEqual(seen, ["pending", "processing", "So.", "completed"])
    assert.deepStrictEqual(polls, ["\"0\"", "\"0\"", undefined])
  })

  it("rejects on abort while a tool ignores the signal", async () => {
    const controller = new AbortController()
    const endless = () => {
      controller.abort("enough")
      return new Promise(() => {})
    }
    const error = await run(endless, controller.signal).catch((reason: unknown) => reason)
    assert.instanceOf(error, AbortError)
    assert.strictEqual(error.cause, "enough")
  })
})
