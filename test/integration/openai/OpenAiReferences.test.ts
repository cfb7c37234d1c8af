/** The façade keeps JSON byte for byte, and a continued conversation refers to the task that it continues: nothing large is copied. */
import { assert, describe, it } from "vitest"
import { documents } from "../../kit/keptJson.ts"
import { deleted, referring } from "../../kit/referring.ts"
import { report } from "../../kit/ScriptedCore.ts"
import { internalToken, mint } from "../../kit/Service.ts"
import { use } from "../../kit/suite.ts"
import { startSystem } from "../../kit/System.ts"
import { uuidOf } from "./OpenAi.ts"

const system = await use(startSystem({ FACADE_MODELS: "gpt-5=1" }))
const { runOf, service } = system
const { away, ended, remove, rerun, storedBytes } = referring(system)

const send = (path: string, token: string, body: string) => service.call("POST", path, token, body)

const read = async (token: string, path: string) => (await service.call("GET", path, token)).text

describe("JSON of the façade", () => {
  it("ends no line of a stream by the white space or the texts of a client", async () => {
    const token = await mint("lines")
    const given = `{"a":\r\n[1,\r2,\n"\u2028data: x\\r\\n\\"\\ud800"]}`
    const tools = `[{"type":"function","name":"f","parameters":${given}}]`
    const body = `{"model":"gpt-5","background":true,"input":"x","tools":${tools},"metadata":{"k":\r\n"\u2029"}}`
    const { id } = JSON.parse((await send("/v1/responses", token, body)).text)
    await report(await runOf(uuidOf(id)), { type: "completed", turn: { output: [] } })
    const events = (await read(token, `/v1/responses/${id}?stream=true`)).split("\n\n").slice(0, -2)
    for (const event of events) {
      const [name = "", data = "", ...more] = event.split(/\r\n|\r|\n/)
      assert.deepStrictEqual(more, [])
      assert.deepStrictEqual([name.slice(0, 7), data.slice(0, 6)], ["event: ", "data: "])
      const { response } = JSON.parse(data.slice(6))
      assert.deepStrictEqual(response.tools, JSON.parse(tools))
      assert.deepStrictEqual(response.metadata, { k: "\u2029" })
    }
    assert.isAbove(events.length, 3)
  })

  it.each(documents)("keeps its bytes in echoes, in the request and in the output: %s", async (json) => {
    const token = await mint("facade json")
    const tool = `{"type":"function","name":"f","parameters":${json}}`
    const item = `{"role":"user","content":"\\u00e9","extra":${json}}`
    const call = `{"type":"function_call","call_id":"c","name":"f","arguments":${JSON.stringify(json)}}`
    const output = `{"type":"function_call_output","call_id":"c","output":[${json}]}`
    const created = await send(
      "/v1/responses",
      token,
      `{"model":"gpt-5","background":true,"tools":[${tool}],"input":[${call},${output},${item}]}`
    )
    assert.strictEqual(created.status, 200, created.text)
    assert.include(created.text, `"tools":[${tool}]`)
    const id: string = JSON.parse(created.text).id
    const uuid = uuidOf(id)
    const items = await read(token, `/v1/responses/${id}/input_items?order=asc`)
    assert.include(items, `"extra":${json}`)
    assert.include(items, `{"type":"input_text","text":"\\u00e9"}`)
    const asked = await read(token, `/api/tasks/${uuid}?include=request`)
    assert.include(asked, `"parameters":${json}`)
    assert.include(asked, `"arguments":${json}`)
    const text = String.raw`"\ud800\u0000\/é"`
    const { run_id } = await runOf(uuid)
    const { status } = await send(
      "/internal/core/events",
      internalToken,
      `{"type":"completed","turn":{"output":[{"text":${text},"type":"text"}]},"task_id":"${uuid}","run_id":"${run_id}","event_id":"1"}`
    )
    assert.strictEqual(status, 200)
    assert.include(await read(token, `/v1/responses/${id}`), `"text":${text}`)
  })
})

/** A response that continues the completed one of a task. */
const respond = async (token: string, more: object) => {
  const { body, status } = await service.call("POST", "/v1/responses", token, {
    model: "gpt-5",
    background: true,
    ...more
  })
  assert.strictEqual(status, 200, JSON.stringify(body))
  return { id: String(body.id), uuid: uuidOf(String(body.id)) }
}

describe("a continued conversation", () => {
  /** A completed response whose turn has `bytes` bytes of messages. */
  const begin = async (token: string, bytes: number) => {
    const { id, uuid } = await respond(token, { input: "x" })
    const messages = `[{"role":"user","content":"x"},{"role":"assistant","n":12345678901234567890,"content":"${
      "y".repeat(bytes)
    }"}]`
    const { run_id } = await runOf(uuid)
    const event =
      `{"task_id":"${uuid}","run_id":"${run_id}","event_id":"1","type":"completed","turn":{"messages":${messages}}}`
    await report(await runOf(uuid), JSON.parse(event))
    return { id, uuid }
  }

  it.each([10, 2_000_000])("of %i bytes is not stored again, and the core receives its messages", async (bytes) => {
    const token = await mint(`continued ${bytes}`)
    const previous = await begin(token, bytes)
    const { uuid } = await respond(token, {
      input: [{ role: "developer", content: "d" }, { role: "user", content: "more" }],
      instructions: "Be brief.",
      previous_response_id: previous.id
    })
    const turns = (await runOf(uuid))["turns"] as ReadonlyArray<{ content: string }>
    assert.deepStrictEqual(turns.map(({ content }) => content.length), [9, 1, bytes, 1])
    assert.isBelow(await storedBytes(uuid), 500)
    const { body: { request } } = await service.call("GET", `/api/tasks/${uuid}?include=request`, token)
    assert.deepStrictEqual([request.continues, request.turns.length], [previous.uuid, 2])
    // A rerun continues the same conversation, unless it has turns of its own.
    const { body: { uuid: again } } = await rerun(token, uuid)
    assert.deepStrictEqual((await runOf(again))["turns"], turns)
    const { body: { uuid: other } } = await rerun(token, uuid, { turns: [] })
    assert.deepStrictEqual((await runOf(other))["turns"], [])
  })

  it("fails with the reason when its task was deleted before the dispatch", async () => {
    const token = await mint("gone")
    const previous = await begin(token, 2_000_000)
    const back = away()
    const { uuid } = await respond(token, { input: "more", previous_response_id: previous.id })
    await runOf(uuid)
    await remove(token, previous.uuid)
    back()
    const { body } = await ended(token, uuid)
    assert.deepStrictEqual([body.status, body.error], ["failed", deleted])
    assert.strictEqual((await rerun(token, uuid)).status, 409)
  })
})
