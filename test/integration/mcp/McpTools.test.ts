/** The tools of the MCP façade with the official clients, in both eras. */
import { assert, describe, it, onTestFinished } from "vitest"
import { complete, interrupt, report, type StartedRun, turnOf } from "../../kit/ScriptedCore.ts"
import { eventually, mint } from "../../kit/Service.ts"
import { expectQuiet, use } from "../../kit/suite.ts"
import { startSystem } from "../../kit/System.ts"
import { checked, clients } from "./Mcp.ts"

const { core, service } = await use(startSystem({ FACADE_MODELS: "analyst=20:2:3" }))
expectQuiet(service)

/** The run of a task that a prompt names, because the task is not known yet. */
const runOf = async (prompt: string): Promise<StartedRun> =>
  (await eventually(
    async () => core.runs.find(({ input }) => input[0]?.text === prompt),
    (run) => run !== undefined
  ))!

/** The keywords that the models of every provider accept. */
const keywords = new Set(["type", "description", "enum", "items", "properties", "required"])
const types = ["string", "integer", "boolean", "array", "object"]

/** Walks a schema. Empty objects are refused in what a model writes, not in what it reads. */
const assertPlain = (schema: any, path: string, isInput: boolean): void => {
  for (const keyword of Object.keys(schema)) assert.isTrue(keywords.has(keyword), `${path}: ${keyword}`)
  assert.include(types, schema.type, path)
  if (schema.enum !== undefined) assert.isTrue(schema.type === "string" && schema.enum.length > 0, path)
  if (schema.type === "array") assertPlain(schema.items, `${path}[]`, isInput)
  if (schema.type !== "object") return
  const properties = Object.entries(schema.properties ?? {})
  if (isInput) assert.isNotEmpty(properties, path)
  for (const name of schema.required ?? []) assert.property(schema.properties, name, path)
  for (const [name, property] of properties) assertPlain(property, `${path}.${name}`, isInput)
}

const refund = { name: "refund", description: "Refunds.", inputSchema: { type: "object" } }

describe.each(clients)("%s", (name, version, connect) => {
  const start = async (sub: string) => use(connect(service, `${name} ${sub}`), onTestFinished)

  it("speaks the protocol of the client, and lists tools that a model understands", async () => {
    const client = await start("lister")
    assert.strictEqual(client.version, version)
    assert.match(client.instructions ?? "", /run_assistant.*get_task.*answer_task/s)
    const tools = await client.tools()
    const names = ["run_assistant", "get_task", "answer_task", "cancel_task", "list_tasks"]
    assert.deepStrictEqual(tools.map(({ name }) => name), names)
    for (const { inputSchema, name, outputSchema } of tools) {
      assertPlain(inputSchema, name, true)
      assertPlain(outputSchema, `${name} returns`, false)
    }
  })

  it("runs an assistant and returns its text, usage and files", async () => {
    const client = await start("runner")
    const prompt = `run ${name}`
    const running = client.call("run_assistant", { assistant: "analyst", prompt, time_limit: 60 })
    const run = await runOf(prompt)
    assert.deepInclude(run, { assistant_id: 20, llm_model_id: 2, image_generator_id: 3, client_tools: [] })
    const file = { id: "1", name: "a[b].png", mime_type: "image/png", provider_data: { path: "x/a.png" } }
    await report(run, {
      type: "completed",
      turn: {
        output: [{ type: "text", text: "The \"answer\"\nis 42." }, { type: "file", file }],
        messages: [],
        metadata: { usage: { input_tokens: 3, output_tokens: 4, total_tokens: 7 } }
      }
    })
    const { output, ...rest } = checked(await running)
    assert.deepStrictEqual(rest, {
      task_id: run.task_id,
      status: "completed",
      usage: { input_tokens: 3, output_tokens: 4, total_tokens: 7 },
      isError: false
    })
    assert.match(output, /^The "answer"\nis 42\.\n\n\[a\\\[b\\\]\.png\]\(http.*\/x\/a\.png\)$/)
    const { body } = await service.get(await mint(`${name} runner`), run.task_id)
    assert.strictEqual(body.status, "completed")
  })

  it("returns the calls of an interrupted task, and continues it with their results", async () => {
    const client = await start("answerer")
    const prompt = `ask ${name}`
    const running = client.call("run_assistant", { assistant: "7", prompt, client_tools: [refund] })
    const run = await runOf(prompt)
    const calls = [{ id: "c1", name: "refund", arguments: { order: 12345678901234567890n.toString() } }]
    await interrupt(run, { tool_calls: calls, turn: turnOf("May I?") })
    const { next, ...asked } = checked(await running)
    const task_id = run.task_id
    assert.deepStrictEqual(asked, {
      task_id,
      status: "interrupted",
      output: "May I?",
      pending_tool_calls: calls,
      isError: false
    })
    assert.include(next, "answer_task")
    const wrong = await client.call("answer_task", { task_id, results: [] })
    assert.isTrue(wrong.isError)
    assert.include(wrong.content[0].text, "c1")
    const results = [{ tool_call_id: "c1", output: { done: true }, is_error: false }]
    assert.deepInclude(checked(await client.call("answer_task", { task_id, results })), { task_id, isError: false })
    const resumed = await core.run(task_id, run)
    assert.deepStrictEqual((resumed.resume as { results: unknown }).results, results)
    const waiting = client.call("get_task", { task_id })
    await complete(resumed, "Refunded.")
    assert.deepInclude(checked(await waiting), { status: "completed", output: "Refunded." })
    const late = await client.call("answer_task", { task_id, results })
    assert.isTrue(late.isError)
    assert.include(late.content[0].text, "The task is completed, not interrupted.")
  })

  it("returns a task that still runs after the wait, and cancels it with a reason", async () => {
    const client = await start("canceler")
    const prompt = `cancel ${name}`
    const args = { assistant: "assistant-7", prompt, wait_seconds: 0 }
    const { next, ...running } = checked(await client.call("run_assistant", args))
    assert.include(next, "get_task")
    assert.include(["pending", "processing"], running.status)
    const { task_id } = running
    const run = await core.run(task_id)
    const waiting = client.call("get_task", { task_id })
    const canceled = { task_id, status: "canceled", error: "No longer needed.", isError: false }
    assert.deepStrictEqual(
      checked(await client.call("cancel_task", { task_id, reason: "No longer needed." })),
      canceled
    )
    assert.deepStrictEqual(checked(await waiting), canceled)
    await core.stopped(run)
    const again = await client.call("cancel_task", { task_id })
    assert.deepStrictEqual([again.isError, again.content[0].text], [
      true,
      "The task has ended: it is canceled. Call get_task for its result."
    ])
  })

  it("returns a failed task as a failure of run_assistant, and as data of get_task", async () => {
    const client = await start("failer")
    const prompt = `fail ${name}`
    const running = client.call("run_assistant", { assistant: 7, prompt })
    const { task_id, ...run } = await runOf(prompt)
    await report({ task_id, ...run } as StartedRun, { type: "failed", code: "payment_required" })
    const failed = { task_id, status: "failed", error: "Insufficient balance" }
    assert.deepStrictEqual(checked(await running), { ...failed, isError: true })
    assert.deepStrictEqual(checked(await client.call("get_task", { task_id })), { ...failed, isError: false })
    const listed = checked(await client.call("list_tasks", { status: "failed" }))
    assert.deepInclude(listed, { page: 1, last_page: 1, total: 1, isError: false })
    assert.deepInclude(listed.tasks[0], failed)
    assert.deepStrictEqual(checked(await client.call("list_tasks", { status: "pending" })).tasks, [])
  })

  it("repeats a run with the same idempotency_key, and refuses another one", async () => {
    const client = await start("repeater")
    const run = (prompt: string) =>
      client.call("run_assistant", { assistant: 7, prompt, wait_seconds: 0, idempotency_key: "k1" })
    const first = checked(await run(`again ${name}`))
    assert.strictEqual(checked(await run(`again ${name}`)).task_id, first.task_id)
    const other = await run(`other ${name}`)
    assert.isTrue(other.isError)
    assert.include(other.content[0].text, "idempotency_key")
  })

  it("says what is wrong with arguments, and refuses tasks of others like unknown ones", async () => {
    const [client, stranger] = await Promise.all([start("owner"), start("stranger")])
    const refusal = async (call: ReturnType<typeof client.call>) => {
      const { content, isError } = await call
      assert.isTrue(isError)
      return content[0].text as string
    }
    const wrong = { assistant: 7, prompt: 1, wait_seconds: -1, files: [{ type: "file", file: { id: 1 } }] }
    const message = await refusal(client.call("run_assistant", wrong))
    for (const part of ["prompt: ", "wait_seconds: ", "files.0.file.id: ", "files.0.file.name: "]) {
      assert.include(message, part)
    }
    assert.include(
      await refusal(client.call("run_assistant", { assistant: "none", prompt: "x" })),
      "Known models: analyst"
    )
    assert.include(await refusal(client.call("get_task", {})), "task_id: This field is required")
    assert.include(await refusal(client.call("list_tasks", { status: "done" })), "status: ")
    const { task_id } = checked(await client.call("run_assistant", { assistant: 7, prompt: "x", wait_seconds: 0 }))
    const unknown = await refusal(stranger.call("get_task", { task_id: "019a0000-0000-7000-8000-000000000000" }))
    for (const tool of ["get_task", "cancel_task"]) {
      assert.strictEqual(await refusal(stranger.call(tool, { task_id })), unknown)
    }
    assert.strictEqual(await refusal(stranger.call("answer_task", { task_id, results: [] })), unknown)
    assert.deepInclude(checked(await client.call("get_task", { task_id, wait_seconds: 0 })), { task_id })
  })

  it("withdraws the task of a client that cancels its call, in the current revision only", async () => {
    const client = await start("leaver")
    const leave = async (prompt: string, more: object = {}) => {
      const controller = new AbortController()
      const running = client.call("run_assistant", { assistant: 7, prompt, ...more }, { signal: controller.signal })
      const run = await runOf(prompt)
      await report(run, { type: "processing" })
      controller.abort()
      await running.then(() => assert.fail("not aborted"), () => {})
      return run
    }
    const run = await leave(`leave ${name}`)
    const kept = await leave(`keep ${name}`, { idempotency_key: "kept" })
    const token = await mint(`${name} leaver`)
    if (version === "2026-07-28") await service.until(token, run.task_id, "canceled")
    else await complete(run)
    await complete(kept)
    await service.until(token, kept.task_id, "completed")
    assert.strictEqual(
      (await service.get(token, run.task_id)).body.status,
      version === "2026-07-28" ? "canceled" : "completed"
    )
  })
})

it("a call that accepts JSON only is held and answered with JSON, also with a progress token", async () => {
  const prompt = "JSON only"
  const params = { name: "run_assistant", arguments: { assistant: 7, prompt }, _meta: { progressToken: 1 } }
  const call = { jsonrpc: "2.0", id: 1, method: "tools/call", params }
  const running = service.call("POST", "/mcp", await mint("json only"), call, { accept: "application/json" })
  await complete(await runOf(prompt), "Done.")
  const { body, headers } = await running
  assert.strictEqual(headers.get("content-type"), "application/json")
  assert.deepInclude(body.result.structuredContent, { status: "completed", output: "Done." })
})

it("a call with a progress token reports progress, with the last line of the text", async () => {
  await Promise.all(clients.map(async ([name, , connect]) => {
    const client = await use(connect(service, `${name} watcher`), onTestFinished)
    const prompt = `watch ${name}`
    const seen: Array<{ readonly progress: number; readonly message?: string | undefined }> = []
    const running = client.call("run_assistant", { assistant: 7, prompt, wait_seconds: 200 }, {
      onprogress: (progress) => void seen.push(progress)
    })
    const run = await runOf(prompt)
    await report(run, { type: "progress", turn: turnOf("First line\nSecond line\n") })
    await eventually(async () => seen.length, (length) => length === 2, 15_000)
    await complete(run, "Done.")
    assert.deepInclude(checked(await running), { status: "completed", output: "Done." })
    assert.deepStrictEqual(seen.slice(0, 2).map(({ message, progress }) => [progress, message]), [
      [5, "Second line"],
      [10, "Second line"]
    ])
  }))
}, 30_000)
