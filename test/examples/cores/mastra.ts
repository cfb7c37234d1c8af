/** Mastra: an agent with a tool of this process; client tools, which have no `execute`, interrupt the task. */
import { createOpenAICompatible } from "@ai-sdk/openai-compatible"
import { Agent, type AgentExecutionOptions } from "@mastra/core/agent"
import { createTool } from "@mastra/core/tools"
import { z } from "zod"
import { type Run, serveCore } from "../../../src/http/client/Core.ts" // async-task-service-client/core

const { OPENAI_API_KEY = "", OPENAI_BASE_URL = "", OPENAI_MODEL = "" } = process.env
const provider = createOpenAICompatible({
  name: "provider",
  baseURL: OPENAI_BASE_URL,
  apiKey: OPENAI_API_KEY,
  includeUsage: true
})

const agent = new Agent({
  id: "assistant",
  name: "Assistant",
  instructions: "You are a helpful assistant.",
  model: provider(OPENAI_MODEL) as never, // the types of Mastra and of the AI SDK differ in `doGenerate`
  tools: {
    weather: createTool({
      id: "weather",
      description: "The weather of a city",
      inputSchema: z.object({ city: z.string() }),
      execute: async ({ city }) => ({ city, sky: "clear" })
    })
  }
})

type ClientTools = NonNullable<AgentExecutionOptions["clientTools"]>

const clientToolsOf = ({ clientTools }: Run): ClientTools =>
  Object.fromEntries(clientTools.map(({ description, name, parameters }) => [
    name,
    { id: name, description: description ?? "", inputSchema: parameters ?? { type: "object" } }
  ])) as ClientTools

/** The results of client tools, as a message. */
const resultsOf = ({ results, state }: Run) => ({
  role: "tool" as const,
  content: results.map(({ output, tool_call_id: toolCallId }) => ({
    type: "tool-result" as const,
    toolCallId,
    toolName: state.names[toolCallId],
    output: { type: "json" as const, value: output }
  }))
})

const answer = async (run: Run) => {
  const messages = run.resumed
    ? [...run.state.messages, resultsOf(run)]
    : run.messages.map((message) => ({ ...message }))
  const clientTools = clientToolsOf(run)
  const stream = await agent.stream(messages, { clientTools, maxSteps: 20, abortSignal: run.signal })
  for await (const chunk of stream.textStream) run.text(chunk)
  if (stream.error !== undefined) throw stream.error
  run.usage({ model: OPENAI_MODEL, ...await stream.totalUsage })
  const calls = (await stream.toolCalls).map(({ payload }) => payload).filter(({ toolName }) => toolName in clientTools)
  if (calls.length === 0 || await stream.finishReason !== "tool-calls") return stream.text
  return run.interrupt({
    calls: calls.map(({ args, toolCallId, toolName }) => ({ id: toolCallId, name: toolName, arguments: args ?? {} })),
    state: {
      messages: [...messages, ...(await stream.response).messages ?? []],
      names: Object.fromEntries(calls.map(({ toolCallId, toolName }) => [toolCallId, toolName]))
    }
  })
}

await serveCore({ runs: 4, run: answer })
