/** `@langchain/openai` with `useResponsesApi`: text, `withStructuredOutput`, a tool loop. */
import { HumanMessage, ToolMessage } from "@langchain/core/messages"
import { tool } from "@langchain/core/tools"
import { ChatOpenAI } from "@langchain/openai"
import { z } from "zod"
import { apiKey, baseURL, print, question, request, weather } from "./found.ts"

const options = { apiKey, configuration: { baseURL }, useResponsesApi: true }
const model = new ChatOpenAI({ ...options, model: "assistant-1", maxTokens: 500 })
const { text } = await model.invoke(question)
const object = await model.withStructuredOutput(z.object({ answer: z.string() }), { method: "jsonSchema" }).invoke(
  question
)

const weatherTool = tool(weather, {
  name: "weather",
  description: "The weather of a city",
  schema: z.object({ city: z.string() })
})
const caller = new ChatOpenAI({ ...options, model: "assistant-2" }).bindTools([weatherTool])
const human = new HumanMessage(request)
const asked = await caller.invoke([human])
const results = (asked.tool_calls ?? []).map(({ args, id = "" }) =>
  new ToolMessage({ content: weather(args as { city: string }), tool_call_id: id })
)
const { text: called } = await caller.invoke([human, asked, ...results])
print({ text, object, called })
