/** `ai` with `@ai-sdk/openai`: `generateText`, `generateObject`, tools, a file as a data URL. */
import { createOpenAI } from "@ai-sdk/openai"
import { generateObject, generateText, stepCountIs, tool } from "ai"
import { z } from "zod"
import { apiKey, baseURL, image, print, question, request, weather } from "./found.ts"

const openai = createOpenAI({ baseURL, apiKey })
const model = openai("assistant-1")
const { text } = await generateText({ model, prompt: question, maxOutputTokens: 500 })
const { object } = await generateObject({ model, prompt: question, schema: z.object({ answer: z.string() }) })
const { text: called } = await generateText({
  model: openai("assistant-2"),
  prompt: request,
  stopWhen: stepCountIs(3),
  tools: {
    weather: tool({
      description: "The weather of a city",
      inputSchema: z.object({ city: z.string() }),
      execute: async (city) => weather(city)
    })
  }
})
const { text: file } = await generateText({
  model,
  messages: [{ role: "user", content: [{ type: "file", mediaType: "image/png", data: image }] }]
})
print({ text, object, called, file })
