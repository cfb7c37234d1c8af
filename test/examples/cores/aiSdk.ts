/** Vercel's AI SDK: `streamText` with a tool of this process; client tools, which have no `execute`, interrupt the task. */
import { createOpenAICompatible } from "@ai-sdk/openai-compatible"
import { jsonSchema, type ModelMessage, stepCountIs, streamText, tool, type ToolSet } from "ai"
import { z } from "zod"
import { type Run, serveCore } from "../../../src/http/client/Core.ts" // async-task-service-client/core

const { OPENAI_API_KEY = "", OPENAI_BASE_URL = "", OPENAI_MODEL = "" } = process.env
const provider = createOpenAICompatible({
  name: "provider",
  baseURL: OPENAI_BASE_URL,
  apiKey: OPENAI_API_KEY,
  includeUsage: true
})

const tools: ToolSet = {
  weather: tool({
    description: "The weather of a city",
    inputSchema: z.object({ city: z.string() }),
    execute: ({ city }) => ({ city, sky: "clear" })
  })
}

const clientToolsOf = ({ clientTools }: Run): ToolSet =>
  Object.fromEntries(clientTools.map(({ description, name, parameters }) => [
    name,
    tool({ description: description ?? "", inputSchema: jsonSchema(parameters ?? { type: "object" }) })
  ]))

interface State {
  readonly messages: ReadonlyArray<ModelMessage>
  readonly names: Readonly<Record<string, string>>
}

/** The results of client tools, as a message. */
const resultsOf = ({ results }: Run, names: State["names"]): ModelMessage => ({
  role: "tool",
  content: results.map(({ output, tool_call_id: toolCallId }) => ({
    type: "tool-result",
    toolCallId,
    toolName: names[toolCallId] ?? "",
    output: { type: "text", value: JSON.stringify(output) }
  }))
})

const answer = async (run: Run) => {
  const state: State | null = run.state
  const messages = state === null ? [...run.messages] : [...state.messages, resultsOf(run, state.names)]
  const clientTools = clientToolsOf(run)
  const stream = streamText({
    model: provider(OPENAI_MODEL),
    messages,
    tools: { ...tools, ...clientTools },
    stopWhen: stepCountIs(20),
    abortSignal: run.signal
  })
  for await (const part of stream.fullStream) {
    if (part.type === "text-delta") run.text(part.text)
    if (part.type === "error") throw part.error
  }
  run.usage({ model: OPENAI_MODEL, ...await stream.totalUsage })
  const calls = (await stream.toolCalls).filter(({ toolName }) => toolName in clientTools)
  if (calls.length === 0) return stream.text
  return run.interrupt({
    calls: calls.map(({ input, toolCallId, toolName }) => ({
      id: toolCallId,
      name: toolName,
      arguments: input as object
    })),
    state: {
      messages: [...messages, ...(await stream.response).messages],
      names: Object.fromEntries(calls.map(({ toolCallId, toolName }) => [toolCallId, toolName]))
    }
  })
}

await serveCore({ runs: 4, run: answer })
