/** The items of a request's input as a conversation. Texts and outputs of tools are passed on as they came. */
import { Effect, Predicate, Schema } from "effect"
import * as OpaqueJson from "../../domain/json/OpaqueJson.ts"
import * as RawJson from "../../domain/json/RawJson.ts"
import { scan } from "../../domain/json/Scanner.ts"
import { raw as anyShape, shapeOf } from "../../domain/json/Shape.ts"
import { Kind } from "../../domain/json/tables.ts"
import type { Writable } from "../../domain/json/Writer.ts"
import * as Limits from "../../domain/Limits.ts"
import type { InputItem } from "../../domain/TaskRequest.ts"
import { invalid, type Refused } from "./Errors.ts"
import * as Ids from "./Ids.ts"
import * as InlineFile from "./InlineFile.ts"

/** A part of a message. */
export type Part = InputItem | InlineFile.InlineFile

/** An item of the history. `json` is a call in a message of a turn. */
export type Entry =
  | Message
  | { readonly kind: "call"; readonly id: string; readonly json: Writable }
  | { readonly kind: "output"; readonly id: string; readonly output: Writable }
  /** An output item of an earlier response. */
  | { readonly kind: "reference"; readonly id: string }

interface Message {
  readonly kind: "message"
  readonly role: Role
  readonly content: ReadonlyArray<Part>
}

export interface Conversation {
  /** Everything up to the last item of the assistant, and system messages. */
  readonly history: ReadonlyArray<Entry>
  /** The words of the user after that; null without any. */
  readonly input: ReadonlyArray<Part> | null
  readonly hasUserMessage: boolean
}

type Role = "user" | "assistant" | "system"

type Parsed<A> = Effect.Effect<A, Refused>

const PartFields = Schema.Struct({
  type: Schema.optional(Schema.Unknown),
  text: Schema.optional(RawJson.Any),
  refusal: Schema.optional(Schema.Unknown),
  file_id: Schema.optional(Schema.Unknown),
  filename: Schema.optional(Schema.Unknown),
  file_data: Schema.optional(RawJson.Any),
  image_url: Schema.optional(RawJson.Any)
})

const InputEntry = Schema.Struct({
  type: Schema.optional(Schema.Unknown),
  id: Schema.optional(Schema.Unknown),
  role: Schema.optional(Schema.Unknown),
  content: Schema.optional(Schema.Union([RawJson.Text, Schema.Array(PartFields)])),
  call_id: Schema.optional(Schema.Unknown),
  name: Schema.optional(Schema.Unknown),
  arguments: Schema.optional(Schema.Unknown),
  output: Schema.optional(RawJson.Any)
})

/** The parts of an input's items that are read. */
export const shape = shapeOf(Schema.Array(InputEntry))

/** Fields of an item or part. Texts and outputs are raw. */
type Fields = { readonly [field: string]: unknown }

const isText = Schema.is(RawJson.Text)

const text = (content: string | RawJson.RawJson): InputItem => ({ type: "text", text: content })

const fileOf = (part: Fields, param: string): Parsed<Part> => {
  const id = part["file_id"]
  const field = part["type"] === "input_image" ? "image_url" : "file_data"
  const data = part[field]
  if (!Predicate.isString(id) && !Predicate.isNullish(data)) {
    return InlineFile.parse(data, part["filename"], param, field)
  }
  if (!Predicate.isString(id)) {
    const way = `Upload the file to /v1/files and pass its file_id, or pass it as a data URL in ${field}.`
    return Effect.fail(invalid(param, way, "unsupported_parameter"))
  }
  const file = Ids.parseFile(id)
  if (file === undefined) {
    const message = `No such file: ${id.slice(0, 64)}. Upload it to /v1/files, which returns its id.`
    return Effect.fail(invalid(`${param}.file_id`, message))
  }
  const { id: stored, mime_type, name, path } = file
  return Effect.succeed({ type: "file", file: { id: stored, name, mime_type, provider_data: { path } } })
}

const partOf = (part: unknown, param: string): Parsed<Part> => {
  if (!isFields(part)) return Effect.fail(invalid(param, "Expected an object"))
  switch (part["type"]) {
    case "input_text":
    case "output_text":
    case "text":
      return isText(part["text"])
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

const isFields = (value: unknown): value is Fields => Predicate.isObject(value)

const roles: ReadonlyMap<unknown, Role> = new Map([
  ["user", "user"],
  ["assistant", "assistant"],
  ["system", "system"],
  ["developer", "system"]
])

const messageOf = Effect.fnUntraced(function*(item: Fields, param: string): Effect.fn.Return<Entry, Refused> {
  const { content } = item
  const role = roles.get(item["role"])
  if (role === undefined) return yield* invalid(`${param}.role`, "Expected user, assistant, system or developer")
  if (isText(content)) return { kind: "message", role, content: [text(content)] }
  if (!Array.isArray(content)) return yield* invalid(`${param}.content`, "Expected a text or an array of parts")
  const parts = yield* Effect.forEach(content, (part, index) => partOf(part, `${param}.content[${index}]`))
  return { kind: "message", role, content: parts }
})

/** The JSON object inside a text, byte for byte; undefined if it is none. */
const objectIn = (json: string): RawJson.RawJson | undefined => {
  const bytes = OpaqueJson.encode(json)
  const { problem, root } = scan(bytes, anyShape, Limits.jsonDepth)
  if (problem !== undefined || root?.kind !== Kind.object) return undefined
  return new RawJson.RawJson(Kind.object, bytes, root.start, root.end)
}

const callOf = (item: Fields, param: string): Parsed<Entry> => {
  const { arguments: json, call_id: id, name } = item
  const args = Predicate.isString(json) ? objectIn(json) : undefined
  return Predicate.isString(id) && Predicate.isString(name) && args !== undefined
    ? Effect.succeed({ kind: "call", id, json: { id, name, arguments: args } })
    : Effect.fail(invalid(param, "Expected call_id, name, and arguments as the text of a JSON object"))
}

const isOutput = (output: unknown): output is Writable =>
  output instanceof RawJson.RawJson
    ? output.kind === Kind.string || output.kind === Kind.array
    : Predicate.isString(output) || Array.isArray(output)

const outputOf = (item: Fields, param: string): Parsed<Entry> => {
  const { call_id: id, output } = item
  return Predicate.isString(id) && isOutput(output)
    ? Effect.succeed({ kind: "output", id, output })
    : Effect.fail(invalid(param, "Expected call_id, and output as a text or an array of parts"))
}

const itemTypes =
  "Expected message, function_call, function_call_output, item_reference or reasoning. Send what another tool returned as a message."

const itemOf = (item: Fields, index: number): Parsed<ReadonlyArray<Entry>> => {
  const param = `input[${index}]`
  const one = Effect.map((parsed: Entry) => [parsed])
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
      return Effect.fail(invalid(`${param}.type`, itemTypes, "unsupported_parameter"))
  }
}

const isOfUser = (item: Entry) => item.kind === "message" && item.role === "user"

export const parse = Effect.fnUntraced(function*(given: string | RawJson.RawJson | ReadonlyArray<Fields>) {
  const items: ReadonlyArray<Entry> = isText(given)
    ? [{ kind: "message", role: "user", content: [text(given)] }]
    : (yield* Effect.forEach(given, itemOf)).flat()
  if (items.length === 0) return yield* invalid("input", "Expected at least one item")
  const end = items.findLastIndex((item) => item.kind !== "message" || item.role === "assistant") + 1
  const tail = items.slice(end)
  const input = tail.flatMap((item) => item.kind === "message" && item.role === "user" ? item.content : [])
  if (input.length > Limits.inputItems) return yield* invalid("input", `Expected at most ${Limits.inputItems} parts`)
  const conversation: Conversation = {
    history: [...items.slice(0, end), ...tail.filter((item) => !isOfUser(item))],
    input: input.length === 0 ? null : input,
    hasUserMessage: items.some(isOfUser)
  }
  return conversation
})

/** The files of a conversation that are yet to be uploaded. */
export const inlineFilesOf = ({ history, input }: Conversation): ReadonlyArray<InlineFile.InlineFile> =>
  [...history.map((entry) => entry.kind === "message" ? entry.content : []), input ?? []].flat()
    .filter((part) => part.type === "inline")

/** The conversation with each of those files as it was uploaded. */
export const withFiles = (
  conversation: Conversation,
  uploaded: ReadonlyMap<InlineFile.InlineFile, InputItem>
): Conversation => {
  const replace = (part: Part): Part => part.type === "inline" ? uploaded.get(part) ?? part : part
  return {
    ...conversation,
    history: conversation.history.map((entry) =>
      entry.kind === "message" ? { ...entry, content: entry.content.map(replace) } : entry
    ),
    input: conversation.input?.map(replace) ?? null
  }
}
