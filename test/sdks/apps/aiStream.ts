/** `ai` with `@ai-sdk/openai`: `streamText`, also of an object. Its tool loop refers to earlier items by their ids. */
import { createOpenAI } from "@ai-sdk/openai"
import { Output, stepCountIs, streamText, tool } from "ai"
import { z } from "zod"
import { apiKey, baseURL, print, question, request, weather } from "./found.ts"

const openai = createOpenAI({ baseURL, apiKey })
const model = openai.responses("assistant-1")
const text = await streamText({ model, prompt: question, maxOutputTokens: 500 }).text
const output = Output.object({ schema: z.object({ answer: z.string() }) })
let object: unknown
for await (const partial of streamText({ model, prompt: question, output }).partialOutputStream) object = partial
const called = await streamText({
  model: openai.responses("assistant-2"),
  prompt: request,
  stopWhen: stepCountIs(3),
  tools: {
    weather: tool({
      description: "The weather of a city",
      inputSchema: z.object({ city: z.string() }),
      execute: async (city) => weather(city)
    })
  }
}).text
print({ text, object, called })
