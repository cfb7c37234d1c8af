/** The items of a request's input as a conversation. Each large part is one JSON text, because items cross threads. */
import { Effect, Predicate, Schema } from "effect"
import * as Limits from "../../../domain/Limits.ts"
import { type JsonObject, JsonObject as JsonObjectSchema } from "../../../domain/OpaqueJson.ts"
import type { InputItem } from "../../../domain/TaskRequest.ts"
import { parseObject } from "../../handlers/body/JsonBody.ts"
import { invalid, type Refused } from "./Errors.ts"
import * as Ids from "./Ids.ts"

/** An item of the history. `json` is a message of a turn, or a call in one. */
export type Entry =
  | { readonly kind: "message"; readonly json: string }
  | { readonly kind: "call"; readonly id: string; readonly json: string }
  /** `output` is JSON. */
  | { readonly kind: "output"; readonly id: string; readonly output: string }
  /** An output item of an earlier response. */
  | { readonly kind: "reference"; readonly id: string }

export interface Conversation {
  /** Everything up to the last item of the assistant, and system messages. */
  readonly history: ReadonlyArray<Entry>
  /** JSON of what the user says after that; null without it. */
  readonly input: string | null
  readonly hasUserMessage: boolean
}

type Role = "user" | "assistant" | "system"

type Item =
  | { readonly kind: "message"; readonly role: Role; readonly content: ReadonlyArray<InputItem> }
  | Exclude<Entry, { readonly kind: "message" }>

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

const roles: ReadonlyMap<unknown, Role> = new Map([
  ["user", "user"],
  ["assistant", "assistant"],
  ["system", "system"],
  ["developer", "system"]
])

const messageOf = Effect.fnUntraced(function*(item: JsonObject, param: string): Effect.fn.Return<Item, Refused> {
  const { content } = item
  const role = roles.get(item["role"])
  if (role === undefined) return yield* invalid(`${param}.role`, "Expected user, assistant, system or developer")
  if (Predicate.isString(content)) return { kind: "message", role, content: [text(content)] }
  if (!Array.isArray(content)) return yield* invalid(`${param}.content`, "Expected a text or an array of parts")
  const parts = yield* Effect.forEach(content, (part, index) => partOf(part, `${param}.content[${index}]`))
  return { kind: "message", role, content: parts }
})

const callOf = (item: JsonObject, param: string): Parsed<Item> => {
  const { arguments: json, call_id: id, name } = item
  const args = Predicate.isString(json) ? parseObject(json) : undefined
  return Predicate.isString(id) && Predicate.isString(name) && args !== undefined
    ? Effect.succeed({ kind: "call", id, json: JSON.stringify({ id, name, arguments: args }) })
    : Effect.fail(invalid(param, "Expected call_id, name, and arguments as the text of a JSON object"))
}

const outputOf = (item: JsonObject, param: string): Parsed<Item> => {
  const { call_id: id, output } = item
  return Predicate.isString(id) && (Predicate.isString(output) || Array.isArray(output))
    ? Effect.succeed({ kind: "output", id, output: JSON.stringify(output) })
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
      return Effect.succeed([{ kind: "reference", id: String(item["id"]).slice(0, 128) }])
    case "reasoning":
      return Effect.succeed([])
    default:
      return Effect.fail(invalid(`${param}.type`, "This type of item is not supported", "unsupported_parameter"))
  }
}

const contentOf = (content: ReadonlyArray<InputItem>) => {
  const [first, ...others] = content
  return first?.type === "text" && others.length === 0 ? first.text : content
}

const entryOf = (item: Item): Entry =>
  item.kind === "message"
    ? { kind: "message", json: JSON.stringify({ role: item.role, content: contentOf(item.content) }) }
    : item

const isOfUser = (item: Item) => item.kind === "message" && item.role === "user"

export const parse = Effect.fnUntraced(function*(given: string | ReadonlyArray<JsonObject>) {
  const items: ReadonlyArray<Item> = Predicate.isString(given)
    ? [{ kind: "message", role: "user", content: [text(given)] }]
    : (yield* Effect.forEach(given, itemOf)).flat()
  if (items.length === 0) return yield* invalid("input", "Expected at least one item")
  const end = items.findLastIndex((item) => item.kind !== "message" || item.role === "assistant") + 1
  const tail = items.slice(end)
  const input = tail.flatMap((item) => item.kind === "message" && item.role === "user" ? item.content : [])
  if (input.length > Limits.inputItems) return yield* invalid("input", `Expected at most ${Limits.inputItems} parts`)
  const conversation: Conversation = {
    history: [...items.slice(0, end), ...tail.filter((item) => !isOfUser(item))].map(entryOf),
    input: input.length === 0 ? null : JSON.stringify(input),
    hasUserMessage: items.some(isOfUser)
  }
  return conversation
})
