/** A conversation that demo assistants began continues with a model provider, which accepts only a valid order of messages. */
import { assert, it } from "vitest"
import { ModelMock, type SentMessage } from "../kit/ModelMock.ts"
import { eventually, mint } from "../kit/Service.ts"
import { use, useDirectory } from "../kit/suite.ts"
import { startSystem } from "../kit/System.ts"

const mock = await use(ModelMock.start([{ match: { userMessage: "hello" }, response: { content: "Hello there." } }]))
const settings = { CORE_URL: "", DATA_DIR: useDirectory(), OPENAI_BASE_URL: mock.url, OPENAI_MODEL: "any" }
const { service } = await use(startSystem(settings))
const token = await mint("ann")
const tool = (name: string) => ({ type: "function", name })

/** A task that has ended or is interrupted. */
const run = async (assistant_id: number, text: string, more: object) => {
  const { body: { uuid } } = await service.create(token, text, { assistant_id, ...more })
  return await settled(uuid)
}

const settled = async (uuid: string) =>
  (await eventually(() => service.get(token, uuid), ({ body }) => !/pending|processing/.test(body.status))).body

const answer = async ({ pending_tool_calls, uuid }: any) => {
  const results = pending_tool_calls.map(({ id }: any) => ({ tool_call_id: id, output: { found: id } }))
  await service.call("POST", `/api/tasks/${uuid}/tool-results`, token, { results })
  return await settled(uuid)
}

/** The rules of strict providers: each call has a unique id and is followed by its result, and nothing is empty. */
const check = (messages: ReadonlyArray<SentMessage>) => {
  const open = new Set<string>()
  const seen = new Set<string>()
  for (const { content, role, tool_call_id = "", tool_calls = [] } of messages) {
    if (role === "tool") assert.isTrue(open.delete(tool_call_id), `a result without its call ${tool_call_id}`)
    else assert.deepStrictEqual([...open], [], `${role} before the results`)
    if (tool_calls.length === 0) assert.isNotEmpty(content, role)
    for (const { id } of tool_calls) {
      assert.isFalse(seen.has(id), `two calls ${id}`)
      seen.add(id)
      open.add(id)
    }
  }
  assert.deepStrictEqual([...open], [])
}

it("continues with a provider after tool calls of demo assistants", async () => {
  const tools = [tool("look"), tool("count")]
  const first = await answer(await run(2, "look and count", { client_tools: tools }))
  const second = await answer(await run(2, "look again", { client_tools: tools, turns: [first.turn] }))
  const third = await run(1, "echo", { turns: [second.turn] })
  assert.isNotEmpty(third.turn.output)
  const waiting = await run(2, "look once more", { client_tools: tools, turns: [third.turn] })
  for (const turn of [third.turn, waiting.turn]) {
    assert.strictEqual((await run(10, "hello", { turns: [turn] })).status, "completed")
  }
  const [afterAnswers, afterCall] = (await mock.requests()).map(({ body }) => body.messages)
  check(afterAnswers!)
  check(afterCall!)
  assert.deepStrictEqual(
    afterAnswers!.map(({ role }) => role).filter((role) => role !== "system"),
    [
      "user",
      "assistant",
      "tool",
      "tool",
      "assistant",
      "user",
      "assistant",
      "tool",
      "assistant",
      "user",
      "assistant",
      "user"
    ]
  )
})
