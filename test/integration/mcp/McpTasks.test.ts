/** The Tasks extension of the MCP façade: its wire. */
import { assert, describe, it } from "vitest"
import { complete, interrupt, report, turnOf } from "../../kit/ScriptedCore.ts"
import { eventually, mint } from "../../kit/Service.ts"
import { expectQuiet, use } from "../../kit/suite.ts"
import { startSystem } from "../../kit/System.ts"
import { sendTo, withTasks } from "./Mcp.ts"

const { core, database, service } = await use(startSystem())
expectQuiet(service)

const tasks = withTasks
const withForms = { ...tasks, elicitation: {} }

const send = (token: string, method: string, params: Record<string, unknown>, capabilities: object = withForms) =>
  sendTo(service, token, method, params, capabilities)

const start = async (sub: string, args: object = {}) => {
  const token = await mint(sub)
  const given = { name: "run_assistant", arguments: { assistant: 7, prompt: "x", ...args } }
  const { body } = await send(token, "tools/call", given)
  const { taskId } = body.result
  const call = async (method: string, params: object = {}, capabilities?: object) =>
    (await send(token, method, { taskId, ...params }, capabilities)).body
  return {
    token,
    taskId,
    created: body.result,
    run: await core.run(taskId),
    call,
    get: async (capabilities?: object) => (await call("tasks/get", {}, capabilities)).result,
    update: async (inputResponses: object) => (await call("tasks/update", { inputResponses })).result
  }
}

const flat = {
  type: "object",
  properties: { approved: { type: "boolean" }, amount: { type: "integer" } },
  required: ["approved"]
}
const client_tools = [
  { name: "approve", inputSchema: { type: "object" }, outputSchema: flat },
  {
    name: "look",
    inputSchema: { type: "object" },
    outputSchema: { type: "object", properties: { a: { type: "array" } } }
  }
]
const tool_calls = [
  { id: "c1", name: "approve", arguments: { order: 1 } },
  { id: "c2", name: "look", arguments: { at: "x".repeat(5000) } }
]

describe("a task", () => {
  it("is returned at once, works, and completes with the result of the tool", async () => {
    const { created, get, run, taskId } = await start("worker", { time_limit: 60 })
    const base = { status: "working", ttlMs: 60_000 + 30 * 86_400_000, pollIntervalMs: 1000 }
    assert.deepInclude(created, { resultType: "task", taskId, ...base })
    assert.hasAllKeys(created, [...Object.keys(base), "resultType", "taskId", "createdAt", "lastUpdatedAt"])
    await report(run, { type: "progress", turn: turnOf("Some\nwork") })
    const working = await get()
    assert.deepInclude(working, { resultType: "complete", taskId, ...base, statusMessage: "work" })
    assert.isAbove(Date.parse(working.lastUpdatedAt), Date.parse(working.createdAt) - 1)
    await complete(run, "Done.")
    const { result, status } = await get()
    assert.strictEqual(status, "completed")
    assert.deepInclude(result, { resultType: "complete", isError: false })
    assert.deepStrictEqual(result.structuredContent, { task_id: taskId, status: "completed", output: "Done." })
    assert.deepStrictEqual(JSON.parse(result.content[0].text), result.structuredContent)
  })

  it("that failed is completed with an error", async () => {
    const { get, run, taskId } = await start("failer")
    await report(run, { type: "failed", code: "payment_required" })
    const { result, status } = await get()
    assert.deepStrictEqual([status, result.isError], ["completed", true])
    assert.deepInclude(result.structuredContent, { task_id: taskId, status: "failed", error: "Insufficient balance" })
  })

  it("is canceled in every state, and acknowledged after its end", async () => {
    const { call, get, run } = await start("canceler")
    for (const _ of [1, 2]) assert.deepStrictEqual((await call("tasks/cancel")).result, { resultType: "complete" })
    assert.strictEqual((await get()).status, "cancelled")
    await core.stopped(run)
    const asked = await start("canceler")
    await interrupt(asked.run, { tool_calls })
    await asked.call("tasks/cancel")
    assert.strictEqual((await asked.get()).status, "cancelled")
  })

  it("of another user is as unknown as one that does not exist, and other methods do not exist", async () => {
    const { taskId } = await start("owner")
    const token = await mint("stranger")
    for (const method of ["tasks/get", "tasks/update", "tasks/cancel"]) {
      const [others, unknown] = await Promise.all([taskId, "nothing"].map((id) => send(token, method, { taskId: id })))
      assert.deepStrictEqual(others!.body, unknown!.body)
      assert.strictEqual(others!.body.error.code, -32602)
      const { body, status } = await send(token, method, { taskId }, {})
      assert.deepStrictEqual([status, body.error.code, body.error.data], [400, -32021, { requiredCapabilities: tasks }])
    }
    for (const method of ["tasks/result", "tasks/list"]) {
      const { body, status } = await send(token, method, { taskId })
      assert.deepStrictEqual([status, body.error.code], [404, -32601])
    }
  })
})

describe("questions", () => {
  it("of calls with one id are one question", async () => {
    const { get, run, taskId, update } = await start("repeated", { client_tools })
    await interrupt(run, { tool_calls: [tool_calls[0], tool_calls[0]] })
    assert.deepStrictEqual(Object.keys((await get()).inputRequests), ["0-c1"])
    await update({ "0-c1": { action: "decline" } })
    const { resume } = await core.run(taskId, run)
    assert.deepStrictEqual((resume as { results: unknown }).results, [
      { tool_call_id: "c1", output: "The user declined.", is_error: true }
    ])
  })

  it("whose answers were not submitted are submitted by the next poll", async () => {
    const { get, run, taskId, update } = await start("cut off", { client_tools })
    await interrupt(run, { tool_calls })
    await update({ "0-c1": { action: "decline" } })
    // The database may go away after it has stored the last answer and before the answers are submitted.
    await database.query(
      `INSERT INTO task_answers SELECT task_uuid, '0-c2', replace(answer, 'c1', 'c2') FROM task_answers
       WHERE task_uuid = '${taskId}'`
    )
    assert.strictEqual((await get()).status, "working")
    const { resume } = await core.run(taskId, run)
    const output = "The user declined."
    assert.deepStrictEqual((resume as { results: unknown }).results, [
      { tool_call_id: "c1", output, is_error: true },
      { tool_call_id: "c2", output, is_error: true }
    ])
    assert.lengthOf(await database.query(`SELECT FROM task_answers WHERE task_uuid = '${taskId}'`), 0)
  })

  it("are the same bytes at every poll, have the form of the tool, and are answered one by one", async () => {
    const { call, get, run, taskId, update } = await start("asked", { client_tools })
    await interrupt(run, { tool_calls })
    const { inputRequests, status } = await get()
    assert.strictEqual(status, "input_required")
    assert.deepStrictEqual(Object.keys(inputRequests), ["0-c1", "0-c2"])
    assert.strictEqual(JSON.stringify((await get()).inputRequests), JSON.stringify(inputRequests))
    const { method, params } = inputRequests["0-c1"]
    assert.deepStrictEqual([method, params.mode, params.requestedSchema], ["elicitation/create", "form", flat])
    assert.include(params.message, "approve with {\"order\":1}")
    const other = inputRequests["0-c2"].params
    assert.isBelow(other.message.length, 2200)
    assert.hasAllKeys(other.requestedSchema.properties, ["output", "failed"])

    const ignored = {
      "0-c1": { action: "cancel" },
      "0-c2": { action: "accept", content: { output: 1 } },
      "1-c1": { action: "accept", content: { approved: true } },
      "0-c3": { action: "accept" }
    }
    assert.deepStrictEqual(await update(ignored), { resultType: "complete" })
    assert.deepStrictEqual((await get()).inputRequests, inputRequests)

    await update({
      "0-c2": { action: "accept", content: { output: " {\"done\": [1]}", failed: true } }
    })
    assert.deepStrictEqual(Object.keys((await get()).inputRequests), ["0-c1"])
    await update({
      "0-c2": { action: "decline" },
      "0-c1": { action: "accept", content: { approved: true, amount: 7 } }
    })
    const resumed = await core.run(taskId, run)
    assert.deepStrictEqual((resumed.resume as { results: unknown }).results, [
      { tool_call_id: "c1", output: { approved: true, amount: 7 }, is_error: false },
      { tool_call_id: "c2", output: { done: [1] }, is_error: true }
    ])
    assert.deepStrictEqual(await update({ "0-c1": { action: "decline" } }), { resultType: "complete" })
    assert.strictEqual((await get()).status, "working")

    await interrupt(resumed, { tool_calls: [tool_calls[1]] })
    assert.deepStrictEqual(Object.keys((await get()).inputRequests), ["1-c2"])
    await call("tasks/update", { inputResponses: { "1-c2": { action: "decline" } } })
    const last = await core.run(taskId, resumed)
    const declined = { tool_call_id: "c2", output: "The user declined.", is_error: true }
    assert.deepStrictEqual((last.resume as { results: unknown }).results, [declined])
    await complete(last)
    await eventually(get, ({ status }) => status === "completed")
  })

  it("are not put to a client without forms, which is told what helps", async () => {
    const { get, run, taskId } = await start("formless", { client_tools })
    await interrupt(run, { tool_calls })
    for (const elicitation of [undefined, { url: {} }]) {
      const task = await get({ ...tasks, elicitation })
      assert.deepInclude(task, {
        status: "working",
        statusMessage:
          `waiting for an answer to approve(…), look(…): call answer_task, or open ${service.url}/console/tasks/${taskId}`
      })
      assert.notProperty(task, "inputRequests")
    }
    for (const elicitation of [{}, { form: {} }, { form: {}, url: {} }]) {
      assert.strictEqual((await get({ ...tasks, elicitation })).status, "input_required")
    }
  })

  it("are few at a time, and text stays text", async () => {
    const { get, run, taskId, update } = await start("many")
    const calls = Array.from({ length: 40 }, (_, index) => ({ id: `c${index}`, name: "look", arguments: {} }))
    await interrupt(run, { tool_calls: calls })
    const first = Object.keys((await get()).inputRequests)
    assert.lengthOf(first, 32)
    const answer = { action: "accept", content: { output: "[not JSON" } }
    await update(Object.fromEntries(first.map((key) => [key, answer])))
    const rest = Object.keys((await get()).inputRequests)
    assert.lengthOf(rest, 8)
    await update(Object.fromEntries(rest.map((key) => [key, answer])))
    const resumed = await core.run(taskId, run)
    const results = (resumed.resume as { results: ReadonlyArray<{ output: unknown }> }).results
    assert.deepStrictEqual(new Set(results.map(({ output }) => output)), new Set(["[not JSON"]))
    assert.lengthOf(results, 40)
  })
})
