/** Requests as agent SDKs send them: models of the backend, files as data URLs, options, and responses that are not stored. */
import { assert, describe, it, onTestFinished } from "vitest"
import { answerJson, LoopbackServer, type Respond } from "../../kit/LoopbackServer.ts"
import { ModelMock } from "../../kit/ModelMock.ts"
import { complete as completeRun, interrupt, turnOf } from "../../kit/ScriptedCore.ts"
import { eventually, Service } from "../../kit/Service.ts"
import { expectQuiet, use, useDirectory } from "../../kit/suite.ts"
import { startSystem } from "../../kit/System.ts"
import { all, clientOf, complete, ended, refusal, tools, uuidOf } from "./OpenAi.ts"

const system = await use(startSystem())
const { core, database, service, settings } = system
expectQuiet(service)

const background = { model: "assistant-1", background: true } as const
/** The SDK's type lacks it. */
interface Stored {
  readonly store: boolean
}

class ListingBackend extends LoopbackServer {
  answer: readonly [status: number, body: object] = [200, {}]
  override respond: Respond = (request, response) => {
    assert.strictEqual(request.url, "/assistants")
    answerJson(response, ...this.answer)
  }
}

const messageOf = (call: Promise<unknown>) => call.then(() => "", (error: unknown) => (error as Error).message)

describe("models", () => {
  it("are the assistants that the backend lists, and a refusal names them", async () => {
    const client = await clientOf(service, "modeller")
    const names = ["assistant-1", "assistant-2", "assistant-3", "assistant-4"]
    assert.deepStrictEqual((await all(client.models.list())).map(({ id }) => id), names)
    const create = client.responses.create({ model: "gpt-5", input: "x" })
    assert.deepStrictEqual(await refusal(create), [404, "model_not_found", "model"])
    const message = await messageOf(create)
    for (const part of [...names, "FACADE_MODELS"]) assert.include(message, part)
  })
})

describe("models of a backend of its own", () => {
  it("are none where it lists none, and 502 where it fails", async () => {
    const backend = await use(new ListingBackend().listen())
    const own = await use(Service.start({ ...settings, ASSISTANT_BACKEND_URL: backend.url }), onTestFinished)
    // The list is cached by token, and a token of another second is another one.
    const known = await clientOf(own, "lists 200")
    const listed = async (status: number, body: object) => {
      backend.answer = [status, body]
      const client = status === 200 ? known : await clientOf(own, `lists ${status}`)
      return (await all(client.models.list())).map(({ id }) => id)
    }
    assert.deepStrictEqual(await listed(200, { data: [{ id: 7, name: "Seven", more: true }] }), ["assistant-7"])
    assert.deepStrictEqual(await listed(404, {}), [])
    assert.deepStrictEqual(await listed(405, {}), [])
    assert.deepStrictEqual(await refusal(listed(500, {})), [502, "server_error", null])
    assert.deepStrictEqual(await refusal(listed(201, { data: [{ id: "x" }] })), [502, "server_error", null])
    backend.answer = [500, {}]
    assert.lengthOf(await all(known.models.list()), 1)
  })
})

const format = {
  type: "json_schema",
  name: "answer",
  strict: true,
  schema: { type: "object", properties: { a: { type: "string" } }, required: ["a"], additionalProperties: false }
} as const

describe("options", () => {
  it("reach the core with the first run and after tool results, and the response repeats them", async () => {
    const client = await clientOf(service, "chooser")
    const asked = { max_output_tokens: 500, text: { format } }
    const created = complete(await client.responses.create({ ...background, input: "go", tools, ...asked }))
    assert.deepStrictEqual([created.max_output_tokens, created.text, (created as never as Stored).store], [
      500,
      asked.text,
      true
    ])
    const run = await core.run(uuidOf(created.id))
    const options = { max_output_tokens: 500, response_format: format }
    assert.deepStrictEqual(run["options"], options)
    await interrupt(run)
    await ended(client, created.id)
    const next = await client.responses.create({
      ...background,
      previous_response_id: created.id,
      input: [{ type: "function_call_output", call_id: "c1", output: "x" }]
    })
    const resumed = await core.run(uuidOf(next.id), run)
    assert.deepStrictEqual(resumed["options"], options)
    await completeRun(resumed)
    await ended(client, next.id)
    const continued = await client.responses.create({
      ...background,
      previous_response_id: next.id,
      input: "more",
      max_output_tokens: 7
    })
    assert.deepStrictEqual((await core.run(uuidOf(continued.id)))["options"], { max_output_tokens: 7 })
    const plain = await client.responses.create({ ...background, input: "x", text: { format: { type: "text" } } })
    assert.notProperty(await core.run(uuidOf(plain.id)), "options")
  })
})

describe("options and the built-in core", () => {
  it("reach its model, and the list of models has its assistant", async () => {
    const mock = await use(ModelMock.start([{
      match: { userMessage: "shape" },
      response: { content: `{"a":"x"}` }
    }]))
    const environment = { OPENAI_BASE_URL: mock.url, OPENAI_MODEL: "m", CORE_URL: "", DATA_DIR: useDirectory() }
    const own = await use(Service.start({ ...settings, ...environment }), onTestFinished)
    const client = await clientOf(own, "modelled")
    assert.include((await all(client.models.list())).map(({ id }) => id), "assistant-10")
    const { output_text } = await client.responses.create({
      model: "assistant-10",
      input: "shape",
      max_output_tokens: 50,
      text: { format }
    })
    const [sent] = await mock.requests()
    const { schema, ...named } = format
    assert.strictEqual(output_text, `{"a":"x"}`)
    assert.deepInclude(sent?.body, {
      max_completion_tokens: 50,
      response_format: { type: "json_schema", json_schema: { name: named.name, strict: true, schema } }
    })
  })
})

describe("a data URL", () => {
  const png = Buffer.from("89504e470d0a1a0a", "hex")
  const image = `data:image/png;base64,${png.toString("base64")}`
  const large = Buffer.alloc(500_000, "abc\n")

  it("is uploaded first, in the input and in the history", async () => {
    const client = await clientOf(service, "inline")
    const { id } = await client.responses.create({
      ...background,
      input: [
        { role: "user", content: [{ type: "input_image", image_url: image, detail: "auto" }] },
        { role: "assistant", content: "I see." },
        {
          role: "user",
          content: [
            { type: "input_text", text: "And this?" },
            { type: "input_file", filename: "b.txt", file_data: `data:text/plain;base64,${large.toString("base64")}` },
            // As a recorder of a browser gives it.
            { type: "input_file", filename: "blob", file_data: "data:video/webm;codecs=vp8,opus;base64,YQ==" },
            { type: "input_file", file_data: "data:audio/ogg;codecs=opus;base64,YQ==" },
            { type: "input_file", filename: "a.docx", file_data: "data:application/wps-office.docx;base64,YQ==" }
          ]
        }
      ]
    })
    const { input, turns } = await core.run(uuidOf(id)) as never as {
      readonly input: ReadonlyArray<any>
      readonly turns: ReadonlyArray<any>
    }
    const { file: text } = input[1]
    const { file: picture } = turns[0].content[0]
    assert.deepStrictEqual([input[0], text.name, text.mime_type], [
      { type: "text", text: "And this?" },
      "b.txt",
      "text/plain"
    ])
    assert.deepStrictEqual([picture.name, picture.mime_type], ["file.png", "image/png"])
    assert.deepStrictEqual(input.slice(2).map(({ file }) => [file.name, file.mime_type]), [
      ["blob.webm", "video/webm"],
      ["file.ogg", "audio/ogg"],
      ["a.docx", "application/wps-office.docx"]
    ])
    const { body: { url } } = await service.call("GET", "/api/storage/base", client.apiKey!)
    const download = async (file: any) =>
      Buffer.from(await (await fetch(`${url}/${file.provider_data.path}`)).arrayBuffer())
    assert.isTrue((await download(text)).equals(large))
    assert.isTrue((await download(picture)).equals(png))
  })

  it("is refused when it is broken, of another format, or one of too many", async () => {
    const client = await clientOf(service, "broken")
    const create = (...content: ReadonlyArray<object>) =>
      client.responses.create({ ...background, input: [{ role: "user", content: content as never }] })
    const file = (file_data: string, filename = "a.txt") => ({ type: "input_file", filename, file_data })
    const param = "input[0].content[0]"
    const cases: ReadonlyArray<readonly [() => Promise<unknown>, ReadonlyArray<unknown>]> = [
      [() => create(file("data:text/plain;base64,?")), [400, null, `${param}.file_data`]],
      [() => create(file("data:text/plain;base64,YQ==", "a.exe")), [400, null, `${param}.file_data`]],
      [() => create(file("data:text/plain,a")), [400, "unsupported_parameter", param]],
      [() => create(...Array.from({ length: 21 }, () => file("data:text/plain;base64,YQ=="))), [400, null, "input"]]
    ]
    for (const [call, expected] of cases) {
      assert.deepStrictEqual(await refusal(call()), expected)
      assert.include(await messageOf(call()), expected[1] === null && expected[2] !== "input" ? "" : "/v1/files")
    }
  })
})

describe("store: false", () => {
  it("deletes the task an hour after its end", async () => {
    const client = await clientOf(service, "forgetful")
    const answer = client.responses.create({ model: "assistant-1", input: "x", store: false })
    const find = () => core.runs.find(({ user }) => (user as { readonly sub: string }).sub === "forgetful")
    await completeRun((await eventually(async () => find(), (run) => run !== undefined))!)
    const { id, output_text, store } = complete(await answer) as Awaited<typeof answer> & Stored
    assert.deepStrictEqual([output_text, store], [turnOf("done").output[0]?.text, false])
    const kept = await client.responses.create({ ...background, input: "x" })
    await completeRun(await core.run(uuidOf(kept.id)))
    await ended(client, kept.id)
    const restart = async () => void (await use(Service.start(settings), onTestFinished))
    await database.query(
      `UPDATE tasks SET created_at = created_at - interval '2 hours', completed_at = now() - interval '59 minutes' WHERE sub = 'forgetful'`
    )
    await restart()
    assert.strictEqual((await client.responses.retrieve(id)).id, id)
    await database.query(`UPDATE tasks SET completed_at = now() - interval '61 minutes' WHERE sub = 'forgetful'`)
    await restart()
    const gone = await eventually(
      () => refusal(client.responses.retrieve(id)).catch((): Array<unknown> => []),
      ([status]) => status === 404
    )
    assert.deepStrictEqual(gone, [404, "not_found", null])
    assert.strictEqual((await client.responses.retrieve(kept.id)).status, "completed")
  })
})
