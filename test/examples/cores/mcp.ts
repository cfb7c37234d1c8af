/** MCP servers as tools, over any OpenAI-compatible endpoint: each tool of the server at MCP_URL is one of the model. */
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client"
import { OpenAI } from "openai"
import { type Run, serveCore } from "../../../src/http/client/Core.ts" // async-task-service-client/core

const { MCP_URL = "", OPENAI_MODEL = "" } = process.env
const openai = new OpenAI() // reads OPENAI_BASE_URL and OPENAI_API_KEY
const server = new Client({ name: "core", version: "1.0.0" })
await server.connect(new StreamableHTTPClientTransport(new URL(MCP_URL)))
const { tools } = await server.listTools()
const isOfServer = (name: string) => tools.some((tool) => tool.name === name)

type Message = OpenAI.ChatCompletionMessageParam

const result = (tool_call_id: string, output: unknown): Message => ({
  role: "tool",
  tool_call_id,
  content: JSON.stringify(output)
})

const answer = async (run: Run) => {
  const messages: Array<Message> = run.resumed
    ? [...run.state, ...run.results.map(({ output, tool_call_id }) => result(tool_call_id, output))]
    : [...run.messages]
  const functions = [
    ...tools.map(({ description = "", inputSchema, name }) => ({ name, description, parameters: { ...inputSchema } })),
    ...run.clientTools.map(({ description, name, parameters }) => ({
      name,
      description: description ?? "",
      parameters: { ...parameters ?? { type: "object" } }
    }))
  ]
  run.usage({ model: OPENAI_MODEL })
  for (;;) {
    const stream = openai.chat.completions.stream({
      model: OPENAI_MODEL,
      messages,
      tools: functions.map((one) => ({ type: "function" as const, function: one })),
      stream_options: { include_usage: true }
    }, { signal: run.signal })
    for await (const { choices } of stream) run.text(choices[0]?.delta.content ?? "")
    run.usage({ ...await stream.totalUsage() })
    const message = await stream.finalMessage()
    messages.push(message)
    const calls = (message.tool_calls ?? []).flatMap((call) =>
      call.type === "function"
        ? [{ id: call.id, name: call.function.name, arguments: JSON.parse(call.function.arguments || "{}") }]
        : []
    )
    if (calls.length === 0) return message.content
    for (const call of calls.filter(({ name }) => isOfServer(name))) {
      const { content } = await server.callTool({ name: call.name, arguments: call.arguments }, { signal: run.signal })
      messages.push(result(call.id, content))
    }
    const others = calls.filter(({ name }) => !isOfServer(name))
    if (others.length > 0) return run.interrupt({ calls: others, state: messages })
  }
}

await serveCore({ runs: 4, run: answer })
