/** `openai`: models, text, JSON, a tool loop, a file as a data URL, a stream. */
import OpenAI from "openai"
import { zodTextFormat } from "openai/helpers/zod"
import { z } from "zod"
import { apiKey, baseURL, image, print, question, request, weather } from "./found.ts"

const client = new OpenAI({ baseURL, apiKey })
const [model, caller] = ["assistant-1", "assistant-2"]
const models: Array<string> = []
for await (const { id } of client.models.list()) models.push(id)

const { output_text: text } = await client.responses.create({ model, input: question, max_output_tokens: 500 })
const { output_parsed: object } = await client.responses.parse({
  model,
  input: question,
  text: { format: zodTextFormat(z.object({ answer: z.string() }), "answer") }
})
const parameters = { type: "object", properties: { city: { type: "string" } }, required: ["city"] }
const asked = await client.responses.create({
  model: caller,
  input: request,
  tools: [{ type: "function", name: "weather", parameters, strict: false }]
})
const outputs = asked.output.flatMap((item) =>
  item.type === "function_call"
    ? [{
      type: "function_call_output" as const,
      call_id: item.call_id,
      output: weather(JSON.parse(item.arguments))
    }]
    : []
)
const answered = await client.responses.create({ model: caller, previous_response_id: asked.id, input: outputs })
const { output_text: file } = await client.responses.create({
  model,
  store: false,
  input: [{ role: "user", content: [{ type: "input_image", image_url: image, detail: "auto" }] }]
})
let streamed = ""
for await (const event of await client.responses.create({ model, input: question, stream: true })) {
  if (event.type === "response.output_text.delta") streamed += event.delta
}
print({ text, object, called: answered.output_text, models, file, streamed })
