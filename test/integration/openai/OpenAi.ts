/** The official OpenAI SDK on this service, and the fields that every response has. */
import OpenAI, { APIError } from "openai"
import type { Response } from "openai/resources/responses/responses"
import { assert } from "vitest"
import { eventually, mint, type Service } from "../../kit/Service.ts"

/** `maxRetries` is 0, so that each call is one request. */
export const clientOf = async (service: Service, sub: string) =>
  new OpenAI({ baseURL: `${service.url}/v1`, apiKey: await mint(sub), maxRetries: 0 })

const fields =
  "access_programs background completed_at conversation created_at error frequency_penalty id incomplete_details instructions max_output_tokens max_tool_calls metadata model object output parallel_tool_calls presence_penalty previous_response_id prompt prompt_cache_key reasoning safety_identifier service_tier status store temperature text tool_choice tools top_logprobs top_p truncation usage user"
    .split(" ")

/** Asserts that a response has exactly the fields that the API documents. */
export const complete = <R extends Response>(response: R): R => {
  // The SDK adds `output_text`.
  const sent = Object.keys(response).filter((name) => name !== "output_text")
  assert.deepStrictEqual(sent.toSorted(), fields)
  return response
}

export const ended = (client: OpenAI, id: string) =>
  eventually(
    async () => complete(await client.responses.retrieve(id)),
    ({ status }) => status !== "queued" && status !== "in_progress"
  )

/** Asserts that a call is refused, and returns the refusal without its message. */
export const refusal = async (call: Promise<unknown>) => {
  const error = await call.then(() => undefined, (error: unknown) => error)
  assert.instanceOf(error, APIError)
  return [error.status, error.code, error.param]
}

export const callsOf = ({ output }: Response) => output.flatMap((item) => item.type === "function_call" ? [item] : [])

/** Every item of a stream or of all pages of a list. */
export const all = async <A>(items: AsyncIterable<A>): Promise<ReadonlyArray<A>> => {
  const found: Array<A> = []
  for await (const item of items) found.push(item)
  return found
}

/** The task of a response. */
export const uuidOf = (id: string) => id.slice(5, 37).replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-")

export const tools = [{ type: "function" as const, name: "look", parameters: { type: "object" }, strict: null }]
export const toolCalls = (count: number) =>
  Array.from({ length: count }, (_, index) => ({ id: `c${index}`, name: "look", arguments: { index } }))
