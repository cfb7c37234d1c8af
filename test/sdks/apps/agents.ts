/** `@openai/agents`: text, `outputType`, a tool loop. */
import { Agent, OpenAIProvider, Runner, tool } from "@openai/agents"
import { z } from "zod"
import { apiKey, baseURL, print, question, request, weather } from "./found.ts"

const runner = new Runner({
  modelProvider: new OpenAIProvider({ baseURL, apiKey, useResponses: true }),
  tracingDisabled: true
})
const tools = [
  tool({
    name: "weather",
    description: "The weather of a city",
    parameters: z.object({ city: z.string() }),
    execute: weather
  })
]
const plain = new Agent({ name: "plain", model: "assistant-1", modelSettings: { maxTokens: 500 } })
const shaped = new Agent({ name: "shaped", model: "assistant-1", outputType: z.object({ answer: z.string() }) })
const caller = new Agent({ name: "caller", model: "assistant-2", tools })
const { finalOutput: text = "" } = await runner.run(plain, question)
const { finalOutput: object } = await runner.run(shaped, question)
const { finalOutput: called = "" } = await runner.run(caller, request)
print({ text, object, called })
