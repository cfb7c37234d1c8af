import * as fs from "node:fs"
import * as path from "node:path"
import { assert, describe, it } from "vitest"
import { eventually, mint } from "../kit/Service.ts"
import { use, useDirectory } from "../kit/suite.ts"
import { HostileProvider, toolCall, words } from "./kit/HostileProvider.ts"
import { assertBounded, startVictim } from "./kit/Victim.ts"

const directory = useDirectory()
const models = ["arguments", "calls", "names", "text", "line", "lines", "comments", "events", "error", "good", "caller"]

const provider = await use(new HostileProvider().listen())
const file = path.join(directory, "assistants.yaml")
const assistants = models.map((model, index) => ({
  id: index + 1,
  name: model,
  llm_models: [{ id: 1, base_url: provider.url, model }],
  image_generators: [{ id: 1, base_url: provider.url, model: "image" }]
}))
fs.writeFileSync(file, JSON.stringify({ assistants }))
const victim = await use(startVictim({
  CORE_URL: "",
  ASSISTANTS_FILE: file,
  DATA_DIR: path.join(directory, "data"),
  TRANSCRIPTION_URL: provider.url,
  MAX_ACTIVE_TASKS: "100"
}))
const token = await mint("attacker")

const ended = async (uuid: string, patience = 30_000) => {
  const { body } = await eventually(
    () => victim.service.get(token, uuid),
    ({ body }) => !/pending|processing/.test(body.status),
    patience
  )
  return body
}

const run = async (model: string, more: object = {}) => {
  const { body, status } = await victim.service.create(token, "hello", {
    assistant_id: models.indexOf(model) + 1,
    max_execution_time: 20,
    ...more
  })
  assert.strictEqual(status, 201, JSON.stringify(body))
  return ended(body.uuid)
}

const weather = { type: "function", name: "weather", parameters: { type: "object", properties: {} } }

describe("an endless response of a model provider", () => {
  it.each(["arguments", "calls", "names", "text", "line", "lines"])(
    "fails the task and is aborted when it is in %s",
    async (model) => {
      let task: { readonly status: string; readonly error: string } | undefined
      assertBounded(
        await victim.observe(async () => {
          task = await run(model, { client_tools: [weather] })
        })
      )
      assert.deepInclude(task, { status: "failed", error: "The answer is too long" })
      const { bytes } = await eventually(async () => provider.sent.get(model)!, ({ isClosed }) => isClosed)
      assert.isBelow(bytes / 1024 / 1024, 32)
    }
  )

  it("leaves the event loop to others when it is in tiny events", async () => {
    let task: { readonly status: string } | undefined
    assertBounded(
      await victim.observe(async () => {
        task = await run("events", { max_execution_time: 3 })
      })
    )
    assert.strictEqual(task?.status, "failed")
  })

  it.each([
    ["is read until the time limit when it contains no text", "comments", 512],
    ["is read only as far as the log needs when it is an error", "error", 8]
  ])("%s", async (_, model, mebibytes) => {
    let task: { readonly status: string } | undefined
    assertBounded(
      await victim.observe(async () => {
        task = await run(model)
      })
    )
    assert.strictEqual(task?.status, "failed")
    assert.isBelow(provider.sent.get(model)!.bytes / 1024 / 1024, mebibytes)
  })

  it("fails the tool and not the turn when it is an image", async () => {
    provider.once.set("caller", toolCall("generate_image", { prompt: "a cat" }))
    assertBounded(
      await victim.observe(async () => {
        const running = run("caller")
        await eventually(async () => provider.sent.get("image")?.isClosed, (closed) => closed === true, 20_000)
        provider.once.set("caller", words("No image."))
        assert.deepInclude(await running, { status: "completed" })
      })
    )
    assert.isBelow(provider.sent.get("image")!.bytes / 1024 / 1024, 64)
  })

  it("fails the task when it is a transcript", async () => {
    const { body } = await victim.service.upload(token, "v.wav", Buffer.from("RIFF\0\0\0\0WAVEfmt data"), "audio/wav")
    const voice = { type: "voice", voice: body.file }
    let task: { readonly status: string; readonly error: string } | undefined
    assertBounded(
      await victim.observe(async () => {
        task = await run("good", { input: [voice], max_execution_time: 60 })
      })
    )
    assert.deepInclude(task, { status: "failed", error: "Voice input could not be transcribed" })
  })
})

describe("a client tool", () => {
  /** Definitions that reference the next one twice, in a way that prevents a converter from sharing them. */
  const levels = 26
  const bomb = {
    type: "object",
    properties: { a: { $ref: "#/$defs/d0" } },
    $defs: Object.fromEntries(
      Array.from({ length: levels }, (_, n) => {
        const next = n + 1 < levels ? { $ref: `#/$defs/d${n + 1}` } : { type: "object" }
        const [l, r] = [{ allOf: [next, { minProperties: 0 }] }, { allOf: [next, { maxProperties: 9 }] }]
        return [`d${n}`, { type: "object", properties: { l, r } }]
      })
    )
  }
  const tool = { type: "function", name: "bomb", parameters: bomb }

  it("takes no CPU time or memory when its schema doubles by reference, called or not", async () => {
    provider.once.set("good", words("Hello."))
    provider.once.set("caller", toolCall("bomb", { a: { l: { r: {} } } }))
    assertBounded(
      await victim.observe(async () => {
        assert.strictEqual((await run("good", { client_tools: [tool] })).status, "completed")
        const task = await run("caller", { client_tools: [tool] })
        assert.strictEqual(task.status, "interrupted")
        assert.deepStrictEqual(task.pending_tool_calls[0].arguments, { a: { l: { r: {} } } })
      })
    )
  })
})

describe("a conversation", () => {
  it("with very many calls and results of one id is rejected in time", async () => {
    provider.once.set("good", words("Hello."))
    const call = { id: "x", name: "t", arguments: {} }
    const messages = [
      { role: "assistant", content: "", tool_calls: Array.from({ length: 20_000 }, () => call) },
      ...Array.from({ length: 20_000 }, () => ({ role: "tool", tool_call_id: "y", content: "" }))
    ]
    let task: { readonly status: string; readonly error: string } | undefined
    const { longestTurn } = await victim.observe(async () => {
      task = await run("good", { turns: [{ messages }] })
    })
    assert.deepInclude(task, { status: "failed", error: "The conversation has too many messages" })
    assert.isBelow(longestTurn, 400)
  })
})
