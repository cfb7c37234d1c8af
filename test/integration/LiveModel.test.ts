/** Live text of the built-in core: the words of a model as it says them. */
import { assert, describe, it, onTestFinished } from "vitest"
import { temporaryDirectory } from "../kit/directories.ts"
import { LiveReader } from "../kit/LiveReader.ts"
import { ModelMock } from "../kit/ModelMock.ts"
import { eventually, mint, Service } from "../kit/Service.ts"
import { use } from "../kit/suite.ts"

const content = "Words 😀 that a model says, one after another. ".repeat(20)
const model = await use(ModelMock.start([
  { match: { userMessage: "stream" }, response: { content }, latency: 50, chunkSize: 20 }
]))
const service = await use(Service.start({
  DATA_DIR: temporaryDirectory(),
  OPENAI_BASE_URL: model.url,
  OPENAI_MODEL: "mock"
}))

describe("the built-in core", () => {
  it("appends what its model streams, and its turn once a second is no news for a reader", async () => {
    const token = await mint("listener")
    const { uuid } = (await service.create(token, "stream", { assistant_id: 10 })).body
    let reader = await LiveReader.open(service.url, token, uuid)
    onTestFinished(() => reader.close())
    await eventually(async () => reader.text.length, (length) => length > 200)
    const { events, lastId, text } = reader
    reader.close()
    reader = await LiveReader.open(service.url, token, uuid, lastId, text)
    await reader.ended()
    assert.strictEqual(reader.text, content)
    assert.strictEqual(reader.replaced, 0)
    const texts = [...events, ...reader.events].filter(({ event }) => event === "text")
    assert.isAbove(texts.length, 20)
    assert.isAbove(reader.events.filter(({ event }) => event === "progress").length, 0)
    assert.strictEqual((await service.get(token, uuid)).body.turn.output[0].text, content)
  })

  it("stops when the task is stopped", async () => {
    const token = await mint("stopper")
    const { uuid } = (await service.create(token, "stream", { assistant_id: 10 })).body
    const reader = await LiveReader.open(service.url, token, uuid)
    onTestFinished(() => reader.close())
    await eventually(async () => reader.text.length, (length) => length > 60)
    assert.strictEqual((await service.call("POST", `/api/tasks/${uuid}/stop`, token)).status, 200)
    await reader.ended()
    assert.strictEqual(reader.events.at(-1)?.event, "canceled")
    assert.isBelow(reader.text.length, content.length)
    assert.isTrue(content.startsWith(reader.text))
  })
})
