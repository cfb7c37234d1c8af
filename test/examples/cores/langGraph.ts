/**
 * LangGraph.js: a graph of a model and tools. Its `interrupt` is the task's: the node of tools waits for the client's answers. The state
 * of the task keeps the messages, so any process can go on; a checkpointer on a database does the same with the task's id as thread.
 */
import {
  AIMessage,
  type BaseMessage,
  mapChatMessagesToStoredMessages,
  mapStoredMessagesToChatMessages,
  ToolMessage
} from "@langchain/core/messages"
import { tool } from "@langchain/core/tools"
import { Command, END, interrupt, MemorySaver, MessagesAnnotation, START, StateGraph } from "@langchain/langgraph"
import { ChatOpenAI } from "@langchain/openai"
import { z } from "zod"
import { type Run, serveCore } from "../../../src/http/client/Core.ts" // async-task-service-client/core

const { OPENAI_API_KEY = "", OPENAI_BASE_URL = "", OPENAI_MODEL = "" } = process.env

const weather = tool(({ city }) => JSON.stringify({ city, sky: "clear" }), {
  name: "weather",
  description: "The weather of a city",
  schema: z.object({ city: z.string() })
})

const lastCalls = (messages: ReadonlyArray<BaseMessage>) => {
  const last = messages.at(-1)
  return AIMessage.isInstance(last) ? last.tool_calls ?? [] : []
}

const graphOf = ({ clientTools }: Run) => {
  const model = new ChatOpenAI({
    model: OPENAI_MODEL,
    apiKey: OPENAI_API_KEY,
    configuration: { baseURL: OPENAI_BASE_URL },
    streamUsage: true
  }).bindTools([
    weather,
    ...clientTools.map(({ description, name, parameters }) => ({
      type: "function",
      function: { name, description: description ?? "", parameters: parameters ?? { type: "object" } }
    }))
  ])
  const message = (id: string | undefined, output: unknown) =>
    new ToolMessage({ tool_call_id: id ?? "", content: typeof output === "string" ? output : JSON.stringify(output) })
  return new StateGraph(MessagesAnnotation)
    .addNode("model", async ({ messages }, config) => ({ messages: [await model.invoke(messages, config)] }))
    .addNode("tools", async ({ messages }) => {
      const calls = lastCalls(messages)
      const clients = calls.filter(({ name }) => name !== weather.name)
      // The client's answers by the ids of the calls. The node begins again with them.
      const answers: Record<string, unknown> = clients.length === 0 ? {} : interrupt(clients)
      return {
        messages: await Promise.all(
          calls.map(async ({ args, id, name }) =>
            name === weather.name
              ? message(id, await weather.invoke(args as { city: string }))
              : message(id, answers[id ?? ""])
          )
        )
      }
    })
    .addEdge(START, "model")
    .addConditionalEdges("model", ({ messages }) => lastCalls(messages).length > 0 ? "tools" : END)
    .addEdge("tools", "model")
    .compile({ checkpointer: new MemorySaver() })
}

const answer = async (run: Run) => {
  const graph = graphOf(run)
  const config = { configurable: { thread_id: run.taskId }, signal: run.signal }
  if (run.resumed) {
    // The graph stands behind the model's call, and waits in the node of tools.
    await graph.updateState(config, { messages: mapStoredMessagesToChatMessages(run.state) }, "model")
    await graph.invoke(null, config)
  }
  const answers = Object.fromEntries(run.results.map(({ output, tool_call_id }) => [tool_call_id, output]))
  const input = run.resumed
    ? new Command<unknown, Record<string, unknown>, "model" | "tools">({ resume: answers })
    : { messages: run.messages.map((message) => ({ ...message })) }
  for await (const [message] of await graph.stream(input, { ...config, streamMode: "messages" })) {
    if (AIMessage.isInstance(message)) run.text(message.text)
  }
  const { next, values: { messages } } = await graph.getState(config)
  const known = run.resumed ? run.state.length : run.messages.length
  for (const { usage_metadata: usage } of messages.slice(known)) if (usage !== undefined) run.usage(usage)
  run.usage({ model: OPENAI_MODEL })
  if (next.length === 0) return messages.at(-1).text
  const calls = lastCalls(messages).filter(({ name }) => name !== weather.name)
  return run.interrupt({
    calls: calls.map(({ args, id, name }) => ({ id, name, arguments: args })),
    state: mapChatMessagesToStoredMessages(messages)
  })
}

await serveCore({ runs: 4, run: answer })
