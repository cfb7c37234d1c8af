/** A tool loop of `@ai-sdk/openai`, which streams and refers to earlier items by their ids. */
import { createOpenAI } from "@ai-sdk/openai"
import { stepCountIs, streamText, tool } from "ai"
import { z } from "zod"

const openai = createOpenAI({ baseURL: `${process.env["SERVICE_URL"]}/v1`, apiKey: process.env["TOKEN"]! })
const result = streamText({
  model: openai.responses("2"),
  prompt: "call weather",
  stopWhen: stepCountIs(3),
  tools: {
    weather: tool({
      description: "The weather of a city",
      inputSchema: z.object({ city: z.string() }),
      execute: async ({ city }) => `clear in ${city}`
    })
  }
})
process.stdout.write(await result.text)
