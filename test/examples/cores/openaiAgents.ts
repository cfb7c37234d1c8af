/** OpenAI's Agents SDK: a client tool waits for an approval, which interrupts the task; its function returns what the client sent. */
import { Agent, type AgentInputItem, OpenAIProvider, Runner, RunState, tool } from "@openai/agents"
import { z } from "zod"
import { type Run, serveCore } from "../../../src/http/client/Core.ts" // async-task-service-client/core

const { OPENAI_API_KEY = "", OPENAI_BASE_URL = "", OPENAI_MODEL = "" } = process.env
const runner = new Runner({
  modelProvider: new OpenAIProvider({ baseURL: OPENAI_BASE_URL, apiKey: OPENAI_API_KEY, useResponses: false }),
  tracingDisabled: true
})

const weather = tool({
  name: "weather",
  description: "The weather of a city",
  parameters: z.object({ city: z.string() }),
  execute: ({ city }) => ({ city, sky: "clear" })
})

const agentOf = ({ clientTools, results }: Run) =>
  new Agent({
    name: "assistant",
    model: OPENAI_MODEL,
    instructions: "You are a helpful assistant.",
    tools: [
      weather,
      ...clientTools.map(({ description, name, parameters }) =>
        tool({
          name,
          description: description ?? "",
          parameters: { properties: {}, required: [], additionalProperties: true, ...parameters, type: "object" },
          strict: false,
          needsApproval: true,
          execute: (_, __, details) =>
            JSON.stringify(
              results.find(({ tool_call_id }) => tool_call_id === details?.toolCall?.callId)?.output ?? null
            )
        })
      )
    ]
  })

const answer = async (run: Run) => {
  const agent = agentOf(run)
  const state = run.resumed ? await RunState.fromString(agent, run.state) : undefined
  for (const interruption of state?.getInterruptions() ?? []) state?.approve(interruption)
  const history = run.messages.map(({ content, role }): AgentInputItem =>
    role === "assistant"
      ? { role, status: "completed", content: [{ type: "output_text", text: content }] }
      : role === "user"
      ? { role, content }
      : { role, content }
  )
  const result = await runner.run(agent, state ?? history, { stream: true, signal: run.signal })
  for await (const chunk of result.toTextStream()) run.text(chunk)
  await result.completed
  const { inputTokens, outputTokens, totalTokens } = result.state.usage
  if (result.interruptions.length === 0) {
    // The state of the SDK counts the usage of the whole task.
    run.usage({ model: OPENAI_MODEL, inputTokens, outputTokens, totalTokens })
    return result.finalOutput
  }
  return run.interrupt({
    calls: result.interruptions.flatMap(({ rawItem }) =>
      rawItem.type === "function_call"
        ? [{ id: rawItem.callId, name: rawItem.name, arguments: JSON.parse(rawItem.arguments) }]
        : []
    ),
    state: result.state.toString()
  })
}

await serveCore({ runs: 4, run: answer })
