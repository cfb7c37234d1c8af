/** The body of `POST /v1/responses`, and its input as a conversation. */
import { Effect, Predicate, Schema } from "effect"
import { absentOr } from "../../../domain/Fields.ts"
import { type JsonObject, JsonObject as JsonObjectSchema, JsonObjects, JsonValue } from "../../../domain/OpaqueJson.ts"
import { CreateTaskBody, type InputItem } from "../../../domain/TaskRequest.ts"
import type { ToolCall } from "../../../domain/ToolCall.ts"
import { invalid, type Refused } from "./Errors.ts"
import * as Ids from "./Ids.ts"

const { callback_secret, callback_url, client_tools, max_execution_time, metadata } = CreateTaskBody.fields

const ignoredWhenLenient = {
  conversation: absentOr(JsonValue, "Not supported."),
  prompt: absentOr(JsonValue, "Not supported."),
  max_output_tokens: absentOr(JsonValue, "Not supported."),
  max_tool_calls: absentOr(JsonValue, "Not supported.")
}

/** Fields that are not listed are ignored. */
export const CreateResponseBody = Schema.Struct({
  model: Schema.String,
  input: Schema.Union([Schema.String, JsonObjects]).annotate({ expected: "a text or an array of items" }),
  instructions: absentOr(Schema.String, "A system message in front of the conversation."),
  previous_response_id: absentOr(Schema.String, "The response that this request continues or answers."),
  tools: absentOr(JsonObjects, "Functions of the client."),
  tool_choice: absentOr(JsonValue, "`auto` or `none`."),
  background: absentOr(Schema.Boolean, "Whether to answer immediately."),
  stream: absentOr(Schema.Boolean, "Whether to answer with events."),
  store: absentOr(Schema.Boolean, "Responses are always stored."),
  text: absentOr(JsonObjectSchema, "Only text is supported."),
  metadata,
  callback_url,
  callback_secret,
  max_execution_time,
  ...ignoredWhenLenient
})
export type CreateResponseBody = typeof CreateResponseBody.Type

export type Item =
  | {
    readonly kind: "message"
    readonly role: "user" | "assistant" | "system"
    readonly content: ReadonlyArray<InputItem>
  }
  | { readonly kind: "call"; readonly call: ToolCall }
  | { readonly kind: "output"; readonly id: string; readonly output: Schema.Json }
  /** An item of an earlier response, by its id. */
  | { readonly kind: "reference"; readonly id: string }

type Parsed<A> = Effect.Effect<A, Refused>

const text = (content: string): InputItem => ({ type: "text", text: content })

const fileOf = (part: JsonObject, param: string): Parsed<InputItem> => {
  const id = part["file_id"]
  if (!Predicate.isString(id)) {
    return Effect.fail(invalid(param, "Upload the file to /v1/files and pass its file_id.", "unsupported_parameter"))
  }
  const file = Ids.parseFile(id)
  if (file === undefined) return Effect.fail(invalid(`${param}.file_id`, `No such file: ${id.slice(0, 64)}`))
  const { id: stored, mime_type, name, path } = file
  return Effect.succeed({ type: "file", file: { id: stored, name, mime_type, provider_data: { path } } })
}

const partOf = (part: unknown, param: string): Parsed<InputItem> => {
  if (!Schema.is(JsonObjectSchema)(part)) return Effect.fail(invalid(param, "Expected an object"))
  switch (part["type"]) {
    case "input_text":
    case "output_text":
    case "text":
      return Predicate.isString(part["text"])
        ? Effect.succeed(text(part["text"]))
        : Effect.fail(invalid(`${param}.text`, "Expected a text"))
    case "refusal":
      return Effect.succeed(text(String(part["refusal"])))
    case "input_file":
    case "input_image":
      return fileOf(part, param)
    default:
      return Effect.fail(invalid(`${param}.type`, "Expected input_text, input_file or input_image"))
  }
}

const roles: Readonly<Record<string, "user" | "assistant" | "system">> = {
  user: "user",
  assistant: "assistant",
  system: "system",
  developer: "system"
}

const messageOf = Effect.fnUntraced(function*(item: JsonObject, param: string): Effect.fn.Return<Item, Refused> {
  const { content, role: given } = item
  const role = Predicate.isString(given) && Object.hasOwn(roles, given) ? roles[given] : undefined
  if (role === undefined) return yield* invalid(`${param}.role`, "Expected user, assistant, system or developer")
  if (Predicate.isString(content)) return { kind: "message", role, content: [text(content)] }
  if (!Array.isArray(content)) return yield* invalid(`${param}.content`, "Expected a text or an array of parts")
  const parts = yield* Effect.forEach(content, (part, index) => partOf(part, `${param}.content[${index}]`))
  return { kind: "message", role, content: parts }
})

const argumentsOf = (json: unknown): JsonObject | undefined => {
  try {
    const value: unknown = Predicate.isString(json) ? JSON.parse(json) : undefined
    return Schema.is(JsonObjectSchema)(value) && !Array.isArray(value) ? value : undefined
  } catch {
    return undefined
  }
}

const callOf = (item: JsonObject, param: string): Parsed<Item> => {
  const { call_id: id, name } = item
  const args = argumentsOf(item["arguments"])
  return Predicate.isString(id) && Predicate.isString(name) && args !== undefined
    ? Effect.succeed({ kind: "call", call: { id, name, arguments: args } })
    : Effect.fail(invalid(param, "Expected call_id, name, and arguments as the text of a JSON object"))
}

const outputOf = (item: JsonObject, param: string): Parsed<Item> => {
  const { call_id: id, output } = item
  return Predicate.isString(id) && (Predicate.isString(output) || Array.isArray(output))
    ? Effect.succeed({ kind: "output", id, output })
    : Effect.fail(invalid(param, "Expected call_id, and output as a text or an array of parts"))
}

const itemOf = (item: JsonObject, index: number): Parsed<ReadonlyArray<Item>> => {
  const param = `input[${index}]`
  const one = Effect.map((parsed: Item) => [parsed])
  switch (item["type"]) {
    case undefined:
    case null:
    case "message":
      return one(messageOf(item, param))
    case "function_call":
      return one(callOf(item, param))
    case "function_call_output":
      return one(outputOf(item, param))
    case "item_reference":
      return Effect.succeed([{ kind: "reference", id: String(item["id"]) }])
    case "reasoning":
      return Effect.succeed([])
    default:
      return Effect.fail(invalid(`${param}.type`, "This type of item is not supported", "unsupported_parameter"))
  }
}

export const itemsOf = ({ input }: Pick<CreateResponseBody, "input">): Parsed<ReadonlyArray<Item>> =>
  Predicate.isString(input)
    ? Effect.succeed([{ kind: "message", role: "user", content: [text(input)] }])
    : Effect.map(Effect.forEach(input, itemOf), (items) => items.flat())

const decodeTools = Schema.decodeUnknownEffect(client_tools)

/** The client tools of a request. */
export const toolsOf = Effect.fnUntraced(function*({ tool_choice, tools }: CreateResponseBody) {
  const choice = tool_choice ?? "auto"
  if (choice !== "auto" && choice !== "none") {
    return yield* invalid("tool_choice", "Expected auto or none", "unsupported_parameter")
  }
  const unsupported = (tools ?? []).findIndex((tool) => tool["type"] !== "function" || tool["async"] === true)
  if (unsupported >= 0) {
    const param = `tools[${unsupported}].${tools?.[unsupported]?.["type"] === "function" ? "async" : "type"}`
    return yield* invalid(param, "Only synchronous functions are supported as tools", "unsupported_parameter")
  }
  if (choice === "none") return []
  const decoded = yield* Effect.mapError(decodeTools(tools), ({ message }) => invalid("tools", message.slice(0, 512)))
  return decoded ?? []
})

/** A field that would change the result and is not supported. */
export const unsupportedField = (body: CreateResponseBody): string | undefined => {
  const format = body.text?.["format"]
  if (Predicate.hasProperty(format, "type") && format.type !== "text") return "text.format"
  if (body.store === false) return "store"
  return Object.keys(ignoredWhenLenient).find((name) =>
    !Predicate.isNullish(Object.entries(body).find(([key]) => key === name)?.[1])
  )
}
