/** The OpenAI façade with the official SDK: create, poll, tool loops, foreground, cancel and refusals. */
import type OpenAI from "openai"
import { assert, describe, it, onTestFinished } from "vitest"
import { complete as completeRun, interrupt, report, type StartedRun, turnOf } from "../../kit/ScriptedCore.ts"
import { eventually, mint, Service } from "../../kit/Service.ts"
import { expectQuiet, use } from "../../kit/suite.ts"
import { startSystem } from "../../kit/System.ts"
import { all, callsOf, clientOf, complete, ended, refusal, toolCalls, tools, uuidOf } from "./OpenAi.ts"

const system = await use(startSystem({ FACADE_MODELS: "gpt-5=1,analyst=20:2:3" }))
const { core, service, settings } = system
expectQuiet(service)

const runOf = (id: string, earlier?: StartedRun) => core.run(uuidOf(id), earlier)

const turn = {
  output: [{ type: "text", text: "Hello" }],
  messages: [{ role: "user", content: "hi" }, { role: "assistant", content: "Hello" }],
  metadata: { usage: { input_tokens: 3, output_tokens: 4, total_tokens: 7 } }
}

describe("responses.create", () => {
  it("creates a background task, which ends as a response with every field", async () => {
    const client = await clientOf(service, "creator")
    const created = complete(
      await client.responses.create({
        model: "analyst",
        input: "hi",
        instructions: "Be brief.",
        background: true,
        metadata: { a: "b" },
        tools
      })
    )
    assert.deepStrictEqual([created.status, created.output, created.model], ["queued", [], "analyst"])
    const run = await runOf(created.id)
    assert.deepInclude(run, {
      assistant_id: 20,
      llm_model_id: 2,
      image_generator_id: 3,
      input: [{ type: "text", text: "hi" }],
      turns: [{ role: "system", content: "Be brief." }],
      client_tools: [{ type: "function", name: "look", parameters: { type: "object" }, strict: null }]
    })
    await report(run, { type: "progress", turn: turnOf("Hel") })
    const partial = complete(await client.responses.retrieve(created.id))
    assert.deepStrictEqual([partial.status, partial.output_text], ["in_progress", "Hel"])
    await report(run, { type: "completed", turn })
    const found = await ended(client, created.id)
    assert.deepStrictEqual([found.status, found.output_text, found.metadata, found.created_at], [
      "completed",
      "Hello",
      { a: "b" },
      created.created_at
    ])
    assert.deepStrictEqual(found.usage, {
      input_tokens: 3,
      input_tokens_details: { cached_tokens: 0, cache_write_tokens: 0 },
      output_tokens: 4,
      output_tokens_details: { reasoning_tokens: 0 },
      total_tokens: 7
    })
    const task = (await service.call("GET", `/api/tasks/${uuidOf(created.id)}?include=metadata`, client.apiKey!)).body
    assert.deepStrictEqual([task.status, task.metadata], ["completed", { a: "b" }])
  })

  it("continues a completed response with the messages of its turn", async () => {
    const client = await clientOf(service, "continuing")
    const first = await client.responses.create({ model: "7", input: "hi", background: true })
    assert.deepStrictEqual(
      await refusal(client.responses.create({ model: "7", input: "x", previous_response_id: first.id })),
      [400, "previous_response_not_completed", "previous_response_id"]
    )
    await report(await runOf(first.id), { type: "completed", turn })
    const second = await client.responses.create({
      model: "assistant-7",
      input: [{ role: "developer", content: "d" }, { role: "user", content: [{ type: "input_text", text: "more" }] }],
      previous_response_id: first.id,
      background: true
    })
    const run = await runOf(second.id)
    assert.deepStrictEqual(run["turns"], [...turn.messages, { role: "system", content: "d" }])
    assert.deepStrictEqual(run.input, [{ type: "text", text: "more" }])
    assert.strictEqual(second.previous_response_id, first.id)
    await report(run, { type: "failed", code: "internal" })
    const failed = await ended(client, second.id)
    assert.deepStrictEqual([failed.status, failed.error?.code], ["failed", "server_error"])
    assert.deepStrictEqual(
      await refusal(client.responses.create({ model: "7", input: "x", previous_response_id: second.id })),
      [400, null, "previous_response_id"]
    )
  })

  it("repeats nothing for the same idempotency key", async () => {
    const client = await clientOf(service, "repeating")
    const create = () =>
      client.responses.create({ model: "1", input: "x", background: true }, { headers: { "Idempotency-Key": "k" } })
    assert.strictEqual((await create()).id, (await create()).id)
  })
})

describe("usage", () => {
  it("adds up over the three responses of a task, also once they are answered", async () => {
    const client = await clientOf(service, "adding")
    const usage = (input: number, output: number) => ({
      output: [],
      messages: [],
      metadata: {
        usage: { input_tokens: input, output_tokens: output, input_tokens_details: { cached_tokens: input / 2 } }
      }
    })
    const interrupted = (id: string) => ({ type: "interrupted", tool_calls: [{ id, name: "look", arguments: {} }] })
    const answer = (id: string, previous: string) =>
      client.responses.create({
        model: "7",
        background: true,
        previous_response_id: previous,
        input: [{ type: "function_call_output", call_id: id, output: "1" }]
      })
    const first = await client.responses.create({ model: "7", input: "hi", background: true })
    const run = await runOf(first.id)
    await report(run, { ...interrupted("a"), turn: usage(10, 1) })
    const second = await answer("a", first.id)
    const next = await core.run(run.task_id, run)
    await report(next, { ...interrupted("b"), turn: usage(30, 3) })
    const third = await answer("b", second.id)
    await report(await core.run(run.task_id, next), { type: "completed", turn: usage(100, 10) })
    await ended(client, third.id)
    const found = await Promise.all([first, second, third].map(({ id }) => client.responses.retrieve(id)))
    assert.deepStrictEqual(
      found.map(({ usage }) => [usage?.input_tokens, usage?.output_tokens, usage?.input_tokens_details.cached_tokens]),
      [[10, 1, 5], [20, 2, 10], [70, 7, 35]]
    )
    const task = await service.call("GET", `/api/tasks/${uuidOf(first.id)}?include=usage`, client.apiKey!)
    const sum = found.reduce((total, { usage }) => total + usage!.total_tokens, 0)
    assert.strictEqual(sum, task.body.usage.total_tokens)
  })

  const turnWith = (text: string, input: number) => ({
    ...turnOf(text),
    metadata: { usage: { input_tokens: input, output_tokens: 1, total_tokens: input + 1 } }
  })
  const calling = { type: "interrupted", tool_calls: [{ id: "a", name: "look", arguments: {} }] }
  const begin = async (sub: string, first: object) => {
    const client = await clientOf(service, sub)
    const { id } = await client.responses.create({ model: "7", input: "hi", background: true })
    const run = await runOf(id)
    await report(run, first)
    return { client, id, run }
  }
  const proceed = async (sub: string, first: object) => {
    const { client, id, run } = await begin(sub, first)
    const second = await client.responses.create({
      model: "7",
      background: true,
      previous_response_id: id,
      input: [{ type: "function_call_output", call_id: "a", output: "1" }]
    })
    return { client, first: id, id: second.id, run: await core.run(run.task_id, run) }
  }
  const seen = async (client: OpenAI, id: string) => {
    const { output_text, status, usage } = await ended(client, id)
    return [status, output_text, usage?.input_tokens]
  }

  it("of a failed response is what it used itself, wherever its turn came from", async () => {
    const alone = await begin("failing", { type: "failed", code: "internal", turn: turnWith("broken", 3) })
    assert.deepStrictEqual(await seen(alone.client, alone.id), ["failed", "broken", 3])
    const later = await proceed("failing later", { ...calling, turn: turnWith("I look.", 10) })
    await report(later.run, { type: "failed", code: "internal", turn: turnWith("I looked", 25) })
    assert.deepStrictEqual(await seen(later.client, later.id), ["failed", "I looked", 15])
    assert.deepStrictEqual(await seen(later.client, later.first), ["completed", "I look.", 10])
    const told = await proceed("failing told", { ...calling, turn: turnWith("I look.", 10) })
    await report(told.run, { type: "progress", turn: turnWith("I am", 17) })
    await report(told.run, { type: "failed", code: "internal" })
    assert.deepStrictEqual(await seen(told.client, told.id), ["failed", "I am", 7])
  })

  it("and text of the response before are not those of one that reported none", async () => {
    const first = { ...calling, turn: turnWith("I look.", 10) }
    const failed = await proceed("silent failure", first)
    await report(failed.run, { type: "failed", code: "internal" })
    assert.deepStrictEqual(await seen(failed.client, failed.id), ["failed", "", undefined])
    const canceled = await proceed("silent cancel", first)
    await canceled.client.responses.cancel(canceled.id)
    assert.deepStrictEqual(await seen(canceled.client, canceled.id), ["cancelled", "", undefined])
    const asking = await proceed("silent interrupt", first)
    await report(asking.run, calling)
    assert.deepStrictEqual(await seen(asking.client, asking.id), ["completed", "", undefined])
    const stopped = await proceed("canceled", first)
    await report(stopped.run, { type: "progress", turn: turnWith("I am", 17) })
    await stopped.client.responses.cancel(stopped.id)
    assert.deepStrictEqual(await seen(stopped.client, stopped.id), ["cancelled", "I am", 7])
  })
})

describe.each([1, 5])("a tool loop with %s calls", (count) => {
  const outputs = toolCalls(count).map(({ id }) => ({
    type: "function_call_output" as const,
    call_id: id,
    output: "42"
  }))
  const results = toolCalls(count).map(({ id }) => ({ tool_call_id: id, output: "42", is_error: false }))

  const begin = async (sub: string) => {
    const client = await clientOf(service, sub)
    const first = await client.responses.create({ model: "gpt-5", input: "go", tools, background: true })
    const run = await runOf(first.id)
    await interrupt(run, { tool_calls: toolCalls(count), turn: turnOf("Looking.") })
    const asked = await ended(client, first.id)
    assert.deepStrictEqual(
      callsOf(asked).map(({ arguments: json, call_id, name }) => ({ json, call_id, name })),
      toolCalls(count).map(({ arguments: value, id, name }) => ({ json: JSON.stringify(value), call_id: id, name }))
    )
    assert.deepStrictEqual([asked.status, asked.output_text], ["completed", "Looking."])
    return { client, first, run, asked }
  }

  const finish = async ({ asked, client, first, run }: Awaited<ReturnType<typeof begin>>, id: string) => {
    assert.strictEqual(id, first.id.replace(/_0$/, "_1"))
    const next = await runOf(id, run)
    assert.deepStrictEqual(next.resume, { state: null, results })
    assert.deepStrictEqual((await client.responses.retrieve(id)).output, [])
    await completeRun(next, "Found.")
    assert.strictEqual((await ended(client, id)).output_text, "Found.")
    assert.deepStrictEqual((await client.responses.retrieve(first.id)).output, asked.output)
  }

  it("continues by previous_response_id", async () => {
    const begun = await begin(`previous-${count}`)
    const { client, first } = begun
    const answer = (input: typeof outputs, headers = {}) =>
      client.responses.create(
        { model: "gpt-5", input, previous_response_id: first.id, background: true, tools },
        { headers }
      )
    assert.deepStrictEqual(await refusal(answer(outputs.slice(1))), [400, null, "input"])
    const key = { "Idempotency-Key": `answer-${count}` }
    const second = await answer(outputs, key)
    assert.strictEqual((await answer(outputs, key)).id, second.id)
    assert.deepStrictEqual(await refusal(answer(outputs)), [400, null, "previous_response_id"])
    await finish(begun, second.id)
  })

  it("continues by the whole history, as items and as references", async () => {
    for (const style of ["items", "references"]) {
      const begun = await begin(`history-${style}-${count}`)
      const { asked, client } = begun
      const history = style === "items"
        ? asked.output.filter(({ type }) => type === "function_call")
        : asked.output.map(({ id }) => ({ type: "item_reference" as const, id: id! }))
      // oxlint-disable-next-line no-await-in-loop -- the styles are independent cases
      const second = await client.responses.create({
        model: "gpt-5",
        input: [{ role: "user", content: "go" }, ...history as typeof outputs, ...outputs],
        background: true
      })
      assert.strictEqual(second.previous_response_id, null)
      await finish(begun, second.id)
    }
  })
})

describe("the whole history without a task that waits", () => {
  it("creates a task with the calls and outputs as its history", async () => {
    const client = await clientOf(service, "gone")
    const { id } = await client.responses.create({
      model: "gpt-5",
      input: [
        { role: "user", content: "go" },
        { type: "function_call", call_id: "x", name: "look", arguments: "{\"a\":1}" },
        { type: "function_call_output", call_id: "x", output: "42" }
      ],
      background: true
    })
    assert.deepStrictEqual((await runOf(id))["turns"], [
      { role: "user", content: "go" },
      { role: "assistant", content: "", tool_calls: [{ id: "x", name: "look", arguments: { a: 1 } }] },
      { role: "tool", tool_call_id: "x", content: "42" }
    ])
  })
})

describe("a foreground call", () => {
  it("is answered when the task has ended or waits", async () => {
    const client = await clientOf(service, "foreground")
    const pending = client.responses.create({ model: "gpt-5", input: "foreground" })
    const isOurs = ({ input }: StartedRun) => input[0]?.text === "foreground"
    const run = await eventually(async () => core.runs.find(isOurs), (found) => found !== undefined)
    await completeRun(run!, "now")
    const response = complete(await pending)
    assert.deepStrictEqual([response.status, response.output_text], ["completed", "now"])
  })
})

describe("responses.cancel", () => {
  it("cancels a running and an interrupted response, and no other", async () => {
    const client = await clientOf(service, "canceler")
    const create = () => client.responses.create({ model: "gpt-5", input: "x", background: true })
    const running = await create()
    const run = await runOf(running.id)
    assert.strictEqual(complete(await client.responses.cancel(running.id)).status, "cancelled")
    await core.stopped(run)
    assert.strictEqual((await client.responses.cancel(running.id)).status, "cancelled")
    const waiting = await create()
    await interrupt(await runOf(waiting.id))
    assert.strictEqual((await client.responses.cancel(waiting.id)).status, "cancelled")
    const done = await create()
    await completeRun(await runOf(done.id))
    assert.deepStrictEqual(await refusal(client.responses.cancel(done.id)), [409, "response_not_cancellable", null])
  })
})

describe("responses.inputItems", () => {
  it("pages through the kept input", async () => {
    const client = await clientOf(service, "lister")
    const input = ["a", "b", "c"].map((content) => ({ role: "user" as const, content }))
    const { id } = await client.responses.create({ model: "gpt-5", input, background: true })
    const found = await all(client.responses.inputItems.list(id, { order: "asc", limit: 2 }))
    assert.deepStrictEqual(
      found.map((item) => item.type === "message" && item.role === "user" && item.content),
      input.map(({ content }) => [{ type: "input_text" as const, text: content }])
    )
    const large = await client.responses.create({ model: "gpt-5", input: "x".repeat(300_000), background: true })
    assert.deepStrictEqual(await refusal(all(client.responses.inputItems.list(large.id))), [
      404,
      "not_found",
      null
    ])
  })
})

describe("models", () => {
  it("are those of FACADE_MODELS, and assistants by their ids", async () => {
    const client = await clientOf(service, "modeller")
    assert.deepStrictEqual((await all(client.models.list())).map(({ id }) => id), ["gpt-5", "analyst"])
    assert.strictEqual((await client.models.retrieve("assistant-9")).id, "assistant-9")
    assert.deepStrictEqual(await refusal(client.models.retrieve("gpt-6")), [404, "model_not_found", "model"])
  })
})

describe("refusals", () => {
  it("are errors in OpenAI's form", async () => {
    const client = await clientOf(service, "refused")
    const create = (more: object) =>
      refusal(client.responses.create({ model: "gpt-5", input: "x", background: true, ...more }))
    const cases: ReadonlyArray<readonly [object, ReadonlyArray<unknown>]> = [
      [{ model: "gpt-6" }, [404, "model_not_found", "model"]],
      [{ model: 1 }, [400, null, "model"]],
      [{ tools: [tools[0], { type: "web_search" }] }, [400, "unsupported_parameter", "tools[1].type"]],
      [{ tools: [{ ...tools[0], async: true }] }, [400, "unsupported_parameter", "tools[0].async"]],
      [{ tools: [{ ...tools[0], name: "not a name" }] }, [400, null, "tools"]],
      [{ tool_choice: "required" }, [400, "unsupported_parameter", "tool_choice"]],
      [{ store: false }, [400, null, "store"]],
      [{ max_output_tokens: 0 }, [400, null, "max_output_tokens"]],
      [{ max_tool_calls: 5 }, [400, "unsupported_parameter", "max_tool_calls"]],
      [{ text: { format: { type: "grammar" } } }, [400, "unsupported_parameter", "text.format"]],
      [{ text: { format: { type: "json_schema", name: "x" } } }, [400, null, "text.format.schema"]],
      [{ text: { format: { type: "json_schema", schema: {} } } }, [400, null, "text.format.name"]],
      [{ previous_response_id: "resp_x" }, [400, "previous_response_not_found", "previous_response_id"]],
      [{ metadata: { a: "x".repeat(513) } }, [400, null, "metadata.a"]],
      [{ input: [{ role: "robot", content: "x" }] }, [400, null, "input[0].role"]],
      [{ input: [{ type: "computer_call" }] }, [400, "unsupported_parameter", "input[0].type"]],
      [{ input: [{ role: "user", content: [{ type: "input_image", image_url: "https://x" }] }] }, [
        400,
        "unsupported_parameter",
        "input[0].content[0]"
      ]]
    ]
    for (const [more, expected] of cases) assert.deepStrictEqual(await create(more), expected, JSON.stringify(more))
  })

  it("are 401 without a valid token and 429 above the limit of active tasks", async () => {
    const client = await clientOf(service, "busy")
    const create = () => client.responses.create({ model: "gpt-5", input: "x", background: true })
    for (let active = 0; active < 5; active++) await create()
    assert.deepStrictEqual(await refusal(create()), [429, "rate_limit_exceeded", null])
    assert.deepStrictEqual(await refusal(client.withOptions({ apiKey: "wrong" }).models.list()), [
      401,
      "invalid_api_key",
      null
    ])
  })

  it("are 404 when the façade is off", async () => {
    const off = await use(Service.start({ ...settings, FACADES: "off" }), onTestFinished)
    for (
      const [method, path] of [["GET", "/v1/models"], ["POST", "/v1/responses"], ["DELETE", "/v1/models"]] as const
    ) {
      assert.strictEqual((await off.call(method, path, await mint("off"))).status, 404)
    }
  })
})
