import * as fs from "node:fs"
import * as path from "node:path"
import { afterAll, assert, describe, it } from "vitest"
import { pdf } from "../kit/documents.ts"
import { ModelMock } from "../kit/ModelMock.ts"
import { eventually, mint, Service } from "../kit/Service.ts"
import { use, useDirectory } from "../kit/suite.ts"
import { startSystem } from "../kit/System.ts"

const directory = useDirectory()
const file = path.join(directory, "assistants.yaml")

const pixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

const definitions = (url: string, more = "") => `
assistants:
  - id: 20
    name: Analyst
    instructions: You are an analyst.
    llm_models:
      - { id: 1, base_url: "${url}", model: first, api_key_env: PROVIDER_KEY, parameters: { temperature: 0.5 } }
      - { id: 2, base_url: "${url}", model: second }
    image_generators:
      - { id: 1, base_url: "${url}", model: painter }
    limits: { rounds: 5 }
${more}`

const call = (name: string, parameters: object) => ({ name, arguments: JSON.stringify(parameters) })

/** A fixture of the mock: its response to the last message of the user. */
const on = (userMessage: string, response: object, match: object = {}) => ({
  match: { userMessage, ...match },
  response
})
const first = { hasToolResult: false }
const then = { hasToolResult: true }
const failure = (status: number, message: string) => ({ status, error: { message, type: "failure" } })

const mock = await use(ModelMock.start([
  on("compare", {
    content: "I look at both.",
    toolCalls: [call("get_weather", { city: "Oslo" }), call("get_weather", { city: "Rome" })],
    usage: { prompt_tokens: 100, completion_tokens: 10 }
  }, first),
  {
    ...on("half a sentence", { content: "One two three four five." }),
    latency: 30,
    chunkSize: 11,
    truncateAfterChunks: 3
  },
  on("endless", { toolCalls: [call("nothing", {})] }),
  { ...on("slow", { content: "So far I can say this. ".repeat(40) }), latency: 50, chunkSize: 5 },
  on("balance", failure(402, "secret words")),
  on("out of order", failure(500, "secret words")),
  on("key", failure(401, "secret words, key-of-the-provider")),
  on("hello", { content: "Hello there.", usage: { prompt_tokens: 7, completion_tokens: 3 } }),
  on("wrong arguments", { toolCalls: [call("get_weather", { town: 1 })] }, first),
  on("wrong arguments", { content: "Sorry." }, then),
  on("characters", {
    content: "NUL \0, half \ud83d, whole \u{1f600}.",
    toolCalls: [call("get_weather", { city: "Os\0lo" })]
  }),
  on("draw", { toolCalls: [call("generate_image", { prompt: "a cat" })] }, first),
  on("remember", { content: "Let me see.", toolCalls: [call("get_weather", { city: "Oslo" })] }, first),
  on("remember", { content: "Snow." }, { toolResultContains: "snow" }),
  on("draw", { content: "Here it is." }, then),
  { match: { endpoint: "image" }, response: { image: { b64Json: pixel } } },
  { match: { endpoint: "transcription" }, response: { transcription: { text: "hello from the recording" } } }
]))
fs.writeFileSync(file, definitions(mock.url))

const system = await use(startSystem({
  CORE_URL: "",
  DATA_DIR: directory,
  ASSISTANTS_FILE: file,
  PROVIDER_KEY: "key-of-the-provider",
  TRANSCRIPTION_URL: mock.url,
  MAX_ACTIVE_TASKS: "1000"
}))
let { service } = system
afterAll(() => service.stop())
const token = await mint("analyst")

const weather = {
  type: "function",
  name: "get_weather",
  parameters: { type: "object", properties: { city: { type: "string" } }, required: ["city"] }
}

const upload = (name: string, content: string | Uint8Array, type: string) => service.store(token, name, content, type)

const create = async (text: string, more: object = {}) => {
  const { body, status } = await service.create(token, text, { assistant_id: 20, ...more })
  assert.strictEqual(status, 201, JSON.stringify(body))
  return body.uuid as string
}

const ended = async (uuid: string) =>
  (await eventually(() => service.get(token, uuid), ({ body }) => !/pending|processing/.test(body.status), 20_000)).body

const sentFor = async (text: string) =>
  (await mock.requests()).filter(({ body }) => JSON.stringify(body).includes(text)).map(({ body }) => body)

describe("an assistant on a model", () => {
  it("calls two client tools in one round, continues with their results, reads a PDF and completes; usage is summed", async () => {
    const uploaded = await upload("report.pdf", pdf("The revenue of Norway was 4711 crowns."), "application/pdf")
    await mock.control("POST", "fixtures", {
      fixtures: [
        on("compare", {
          toolCalls: [call("read_file", { file_id: uploaded.file.id })],
          usage: { prompt_tokens: 200, completion_tokens: 20 }
        }, { toolResultContains: "sunny" }),
        on("compare", {
          content: "Oslo rains, Rome shines; 4711 crowns.",
          usage: { prompt_tokens: 400, completion_tokens: 40 }
        }, { toolResultContains: "4711" })
      ]
    })
    const uuid = await create("compare the towns", {
      input: [{ type: "text", text: "compare the towns" }, uploaded],
      client_tools: [weather]
    })
    const interrupted = await ended(uuid)
    assert.strictEqual(interrupted.status, "interrupted")
    assert.deepStrictEqual(
      interrupted.pending_tool_calls.map(({ arguments: given, name }: never) => [name, given]),
      [["get_weather", { city: "Oslo" }], ["get_weather", { city: "Rome" }]]
    )
    const [oslo, rome] = interrupted.pending_tool_calls
    await service.call("POST", `/api/tasks/${uuid}/tool-results`, token, {
      results: [{ tool_call_id: rome.id, output: { sky: "sunny" } }, { tool_call_id: oslo.id, output: "rain" }]
    })
    const { error, status, turn } = await ended(uuid)
    assert.deepStrictEqual([status, error], ["completed", null])
    assert.deepStrictEqual(turn.output, [{ type: "text", text: "Oslo rains, Rome shines; 4711 crowns." }])
    assert.deepStrictEqual(turn.metadata, {
      model: "first",
      finish_reason: "stop",
      usage: { input_tokens: 700, output_tokens: 70, total_tokens: 770 }
    })
    assert.deepStrictEqual(
      turn.messages.map(({ role }: { role: string }) => role),
      ["user", "assistant", "tool", "tool", "assistant", "tool", "assistant"]
    )

    const sent = await sentFor("compare the towns")
    assert.strictEqual(sent.length, 3)
    const [first, , third] = sent
    assert.deepInclude(first, { model: "first", temperature: 0.5, stream: true })
    assert.deepStrictEqual(
      first!.tools!.map(({ function: { name } }) => name).toSorted(),
      ["generate_image", "get_weather", "read_file"]
    )
    const sentTool = first!.tools!.find((tool) => tool.function.name === "get_weather")
    assert.deepStrictEqual(sentTool?.function.parameters, weather.parameters)
    assert.deepStrictEqual(first!.messages.map(({ role }) => role), ["system", "user"])
    assert.include(JSON.stringify(first!.messages[1]), uploaded.file.id)
    assert.deepStrictEqual(
      third!.messages.slice(2).map(({ content, role, tool_call_id, tool_calls }) =>
        role === "tool"
          ? [tool_call_id === rome.id ? "Rome" : tool_call_id === oslo.id ? "Oslo" : "PDF", content]
          : [role, content, tool_calls?.length]
      ),
      [
        ["assistant", "I look at both.", 2],
        ["Oslo", "rain"],
        ["Rome", "{\"sky\":\"sunny\"}"],
        ["assistant", null, 1],
        ["PDF", "--- page 1 ---\nThe revenue of Norway was 4711 crowns."]
      ]
    )

    const next = await ended(await create("hello again", { turns: [turn] }))
    assert.strictEqual(next.status, "completed")
    assert.strictEqual((await sentFor("hello again"))[0]!.messages.length, 1 + 7 + 1)
  })

  it("keeps its partial output when the time limit passes", async () => {
    const { body } = await service.create(token, "slow one", { assistant_id: 20, max_execution_time: 3 })
    const task = await ended(body.uuid)
    assert.deepStrictEqual([task.status, task.error], ["failed", "Task exceeded maximum execution time (3s)"])
    const { text } = task.turn.output[0]
    assert.match(text, /^So far I can say this\. So far/)
    assert.isBelow(text.length, 900)
    assert.strictEqual(task.turn.messages.at(-1).content, text)
  })

  it("uses the requested configuration, and silently the default for an unknown id", async () => {
    for (const [id, model] of [[2, "second"], [99, "first"]] as const) {
      const task = await ended(await create(`hello ${id}`, { llm_model_id: id, image_generator_id: 77 }))
      assert.strictEqual(task.turn.metadata.model, model)
    }
  })

  it("reports invalid arguments to the model and not to the client", async () => {
    const task = await ended(await create("wrong arguments", { client_tools: [weather] }))
    assert.deepStrictEqual([task.status, task.turn.output[0].text], ["completed", "Sorry."])
    const answer = (await sentFor("wrong arguments"))[1]!.messages.at(-1)!
    assert.strictEqual(answer.role, "tool")
    assert.match(answer.content, /Missing key[^]*city/)
  })

  it("may send characters that texts cannot have: they stay", async () => {
    const task = await ended(await create("characters", { client_tools: [weather] }))
    assert.strictEqual(task.turn.output[0].text, "NUL \0, half \ud83d, whole \u{1f600}.")
    assert.deepStrictEqual(task.pending_tool_calls[0].arguments, { city: "Os\0lo" })
  })

  it("fails after its maximum of rounds", async () => {
    const task = await ended(await create("endless"))
    assert.deepStrictEqual([task.status, task.error], ["failed", "The assistant did not finish within 5 rounds"])
    assert.strictEqual((await sentFor("endless")).length, 5)
  })

  it("maps a provider's errors without exposing their messages", async () => {
    for (const [text, error] of [["balance", "Insufficient balance"], ["key", "Task processing failed"]] as const) {
      const task = await ended(await create(text))
      assert.deepStrictEqual([task.status, task.error], ["failed", error])
      assert.notInclude(JSON.stringify(task), "secret")
    }
    await service.logged(/secret words/)
    assert.notInclude(service.output, "key-of-the-provider")
    const unknown = await ended(await create("x", { assistant_id: 21 }))
    assert.strictEqual(unknown.error, "Assistant is not available")
  })

  it("stores a generated image and refers to it from output", async () => {
    const task = await ended(await create("draw a cat"))
    assert.strictEqual(task.status, "completed")
    const [text, image] = task.turn.output
    assert.strictEqual(text.text, "Here it is.")
    const base = await service.call("GET", "/api/storage/base", token)
    const download = await fetch(`${base.body.url}/${image.file.provider_data.path}`)
    assert.deepStrictEqual(Buffer.from(await download.arrayBuffer()), Buffer.from(pixel, "base64"))
    assert.strictEqual(download.headers.get("content-type"), "image/png")
  })

  it("receives an image that it reads", async () => {
    const uploaded = await upload("dot.png", Buffer.from(pixel, "base64"), "image/png")
    await mock.control("POST", "fixtures", {
      fixtures: [
        {
          match: { userMessage: "describe", turnIndex: 0 },
          response: { toolCalls: [call("read_file", { file_id: uploaded.file.id })] }
        },
        { match: { turnIndex: 1, hasToolResult: false }, response: { content: "A dot." } }
      ]
    })
    const task = await ended(await create("describe", { input: [{ type: "text", text: "describe" }, uploaded] }))
    assert.strictEqual(task.status, "completed", task.error)
    const { messages } = (await sentFor("describe"))[1]!
    assert.deepStrictEqual(messages.at(-1)!.content, [{
      type: "image_url",
      image_url: { url: `data:image/png;base64,${pixel}` }
    }])
    assert.notInclude(JSON.stringify(task.turn), pixel)
  })

  it("receives voice as text, and the transcript is in the turn's metadata", async () => {
    const uploaded = await upload(
      "voice.wav",
      Buffer.concat([Buffer.from("RIFF\0\0\0\0WAVEfmt "), Buffer.alloc(64)]),
      "audio/wav"
    )
    const { id, mime_type, name } = uploaded.file
    const task = await ended(await create("", { input: [{ type: "voice", voice: { id, name, mime_type } }] }))
    assert.strictEqual(task.status, "completed", task.error)
    assert.deepStrictEqual(task.turn.metadata.transcriptions, [{ id, text: "hello from the recording" }])
    assert.include(
      JSON.stringify((await sentFor("hello from the recording")).at(-1)!.messages),
      "hello from the recording"
    )
  })

  it("reloads its file when it changes, and ignores an invalid one", async () => {
    fs.writeFileSync(file, definitions(mock.url, "  - color: red\n"))
    assert.strictEqual((await ended(await create("hello broken"))).status, "completed")
    await service.logged(/assistants\.yaml:\d+: assistants\.1\./)
    fs.writeFileSync(
      file,
      definitions(mock.url, `  - { id: 21, name: New, llm_models: [{ id: 1, base_url: "${mock.url}", model: new }] }\n`)
    )
    const task = await ended(await create("hello new", { assistant_id: 21 }))
    assert.strictEqual(task.turn.metadata.model, "new")
  })
})

describe("an interrupted task", () => {
  it("resumes from the stored turn after restarts", async () => {
    const uuid = await create("remember", { client_tools: [weather] })
    const [pending] = (await ended(uuid)).pending_tool_calls
    await service.stop("SIGKILL")
    service = await Service.start(system.settings)
    await service.call("POST", `/api/tasks/${uuid}/tool-results`, token, {
      results: [{ tool_call_id: pending.id, output: "snow", is_error: false }]
    })
    const task = await ended(uuid)
    assert.deepStrictEqual([task.status, task.turn.output[0].text], ["completed", "Snow."])
    const roles = task.turn.messages.map(({ content, role }: { role: string; content: unknown }) => [role, content])
    assert.deepStrictEqual(roles.slice(1), [["assistant", "Let me see."], ["tool", "snow"], ["assistant", "Snow."]])
  })

  it("fails when the stored turn is gone", async () => {
    const uuid = await create("remember", { client_tools: [weather] })
    const [pending] = (await ended(uuid)).pending_tool_calls
    for (const name of fs.readdirSync(path.join(directory, "chats"))) fs.rmSync(path.join(directory, "chats", name))
    await service.call("POST", `/api/tasks/${uuid}/tool-results`, token, {
      results: [{ tool_call_id: pending.id, output: "snow" }]
    })
    assert.strictEqual((await ended(uuid)).error, "Assistant is not available")
  })
})

describe("a failing provider", () => {
  const troubles = [
    ["says 429", { rateLimitRate: 1 }],
    ["fails", { dropRate: 1 }],
    ["hangs up", { disconnectRate: 1 }],
    ["talks nonsense", { malformedRate: 1 }]
  ] as const
  // Each waits between its five requests.
  it.concurrent("that always fails gets five requests", async () => {
    const task = await ended(await create("out of order"))
    assert.strictEqual(task.error, "Task processing failed")
    assert.strictEqual((await sentFor("out of order")).length, 5)
  })

  it.concurrent("that always ends its stream early leaves no response that seems complete", async () => {
    const task = await ended(await create("half a sentence"))
    assert.deepStrictEqual([task.status, task.error], ["failed", "Task processing failed"])
    assert.strictEqual((await sentFor("half a sentence")).length, 5)
    assert.deepStrictEqual([task.turn.metadata.finish_reason, task.turn.output[0].text], ["in_progress", "One two thr"])
  })

  for (const [name, rates] of troubles) {
    it(`that ${name} gets the request again`, async () => {
      await mock.control("POST", "chaos", rates)
      const uuid = await create(`hello, you who ${name}`)
      await eventually(() => sentFor(`hello, you who ${name}`), (sent) => sent.length >= 2)
      await mock.control("DELETE", "chaos")
      const task = await ended(uuid)
      assert.deepStrictEqual([task.status, task.error], ["completed", null])
      assert.strictEqual(task.turn.output[0].text, "Hello there.")
    })
  }
})
