/** A tool loop of `@openai/agents`. */
import { Agent, OpenAIProvider, Runner, tool } from "@openai/agents"
import { z } from "zod"

const modelProvider = new OpenAIProvider({
  baseURL: `${process.env["SERVICE_URL"]}/v1`,
  apiKey: process.env["TOKEN"]!,
  useResponses: true
})
const weather = tool({
  name: "weather",
  description: "The weather of a city",
  parameters: z.object({ city: z.string() }),
  execute: ({ city }) => `clear in ${city}`
})
const agent = new Agent({ name: "demo", model: "2", tools: [weather] })
const runner = new Runner({ modelProvider, tracingDisabled: true })
const result = await runner.run(agent, "call weather")
process.stdout.write(`${result.finalOutput}`)
