/** The example cores of agent SDKs, against a scripted model, with the service. */
import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js"
import { StreamableHTTPServerTransport } from "@modelcontextprotocol/sdk/server/streamableHttp.js"
import * as path from "node:path"
import { afterAll, assert, describe, it } from "vitest"
import { z } from "zod"
import { conformance } from "../kit/conformance.ts"
import { coreToken, startCore } from "../kit/cores/startCore.ts"
import { openDatabase } from "../kit/databases.ts"
import { LoopbackServer } from "../kit/LoopbackServer.ts"
import { ModelMock } from "../kit/ModelMock.ts"
import { hasPython } from "../kit/python.ts"
import { eventually, mint, Service } from "../kit/Service.ts"
import { use } from "../kit/suite.ts"

const examples = path.resolve(import.meta.dirname, "../examples/cores")

const call = (name: string, parameters: object) => ({ name, arguments: JSON.stringify(parameters) })
const usage = { prompt_tokens: 10, completion_tokens: 5 }
/** A fixture of the model: its response to the last message of the user, before and after a tool's result. */
const on = (userMessage: string, first: object, then: object) => [
  { match: { userMessage, hasToolResult: false }, response: { usage, ...first } },
  { match: { userMessage, hasToolResult: true }, response: { usage, ...then } }
]
const mock = await use(ModelMock.start([
  ...on("weather", { toolCalls: [call("weather", { city: "Oslo" })] }, { content: "Clear in Oslo." }),
  ...on("book", { content: "One moment.", toolCalls: [call("approve", { price: 7 })] }, { content: "It is booked." }),
  ...on("both", { toolCalls: [call("weather", { city: "Oslo" }), call("approve", {})] }, { content: "Both are done." }),
  {
    match: { userMessage: "Hello", toolName: "look", hasToolResult: false },
    response: { toolCalls: [call("look", {})] }
  },
  { match: { userMessage: "Hello" }, response: { content: "Hello there." } },
  { match: { userMessage: "hello" }, response: { content: "Hello there.", usage } },
  { ...on("slow", { content: "So far I can say this. ".repeat(20) }, {})[0], latency: 50, chunkSize: 5 }
]))

/** An MCP server with one tool. */
const mcp = await use(
  new LoopbackServer(async (request, response) => {
    const server = new McpServer({ name: "weather", version: "1.0.0" })
    const inputSchema = { city: z.string() }
    server.registerTool("weather", { description: "The weather of a city", inputSchema }, ({ city }) => ({
      content: [{ type: "text", text: `clear in ${city}` }]
    }))
    const transport = new StreamableHTTPServerTransport({ sessionIdGenerator: undefined as never })
    await server.connect(transport as never)
    await transport.handleRequest(request, response)
  }).listen()
)

/** The URL of an example core with this model. */
const start = async (file: string) => {
  const model = { OPENAI_BASE_URL: mock.url, OPENAI_API_KEY: "key", OPENAI_MODEL: "model" }
  return (await startCore(path.join(examples, file), { ...model, MCP_URL: mcp.url }, afterAll)).url
}

const approve = {
  type: "function",
  name: "approve",
  description: "Asks the user",
  parameters: { type: "object", properties: { price: { type: "number" } } }
}

const files = ["aiSdk.ts", "openaiAgents.ts", "langGraph.ts", "mastra.ts", "mcp.ts", "openai.py"]

for (const file of files.filter((name) => hasPython || !name.endsWith(".py"))) {
  describe(`the example core ${file}`, async () => {
    const url = await start(file)
    const database = await use(openDatabase())
    const settings = { DATABASE_URL: database.url, CORE_URL: url, CORE_TOKEN: coreToken }
    const service = await use(Service.start({ ...settings, ASSISTANT_BACKEND_URL: "none" }))
    const token = await mint("author")

    it("answers, calls its own tool, lets the client answer one, and reports its usage", async () => {
      const textOf = async (uuid: string) => {
        const { body } = await service.until(token, uuid, "completed", 20_000)
        return body.turn
      }
      const hello = await textOf((await service.create(token, "hello")).body.uuid)
      assert.strictEqual(hello.output[0].text, "Hello there.")
      assert.deepInclude(hello.metadata.usage, { input_tokens: 10, output_tokens: 5, total_tokens: 15 })
      assert.strictEqual(hello.metadata.model, "model")

      const weather = await textOf((await service.create(token, "weather")).body.uuid)
      assert.strictEqual(weather.output[0].text, "Clear in Oslo.")
      assert.deepInclude(weather.metadata.usage, { input_tokens: 20, output_tokens: 10 })

      const again = await textOf(
        (await service.create(token, "hello", { turns: [{ role: "user", content: "Earlier" }, hello] })).body.uuid
      )
      assert.strictEqual(again.output[0].text, "Hello there.")
      const sent = (await mock.requests()).at(-1)?.body.messages.filter(({ role }) => role !== "system")
      assert.deepStrictEqual(sent?.map(({ role }) => role), ["user", "user", "assistant", "user"])

      for (const [prompt, said] of [["book", "It is booked."], ["both", "Both are done."]] as const) {
        const { body: { uuid } } = await service.create(token, prompt, { client_tools: [approve] })
        const { body } = await service.until(token, uuid, "interrupted", 20_000)
        assert.lengthOf(body.pending_tool_calls, 1)
        assert.deepInclude(body.pending_tool_calls[0], {
          name: "approve",
          arguments: prompt === "book" ? { price: 7 } : {}
        })
        const results = [{ tool_call_id: body.pending_tool_calls[0].id, output: { approved: true } }]
        await service.call("POST", `/api/tasks/${uuid}/tool-results`, token, { results })
        const turn = await textOf(uuid)
        assert.strictEqual(turn.output[0].text, said)
        assert.deepInclude(turn.metadata.usage, { input_tokens: 20, output_tokens: 10 })
        const tools = (await mock.requests()).at(-1)?.body.messages.filter(({ role }) => role === "tool")
        assert.include(JSON.stringify(tools?.map(({ content }) => content)), "approved")
        assert.lengthOf(tools ?? [], prompt === "book" ? 1 : 2)
      }
    }, 60_000)

    it("conforms to the protocol", async () => {
      const cases = await conformance(url, coreToken)
      assert.isAtLeast(cases.length, 10)
      assert.deepStrictEqual(cases.filter(({ outcome }) => outcome !== "passed"), [])
    }, 60_000)

    it("shows words as the model writes them", async () => {
      const { body: { uuid } } = await service.create(token, "slow")
      const partial = await eventually(
        async () => (await service.get(token, uuid)).body,
        ({ status, turn }) => status === "completed" || turn !== null
      )
      assert.strictEqual(partial.status, "processing")
      assert.match(partial.turn.output[0].text, /^So f/)
    }, 60_000)
  })
}
