/** Calls of an interrupted task as questions to a person, and the answers as results. The same call makes the same bytes at every poll. */
import { Effect, Predicate } from "effect"
import * as OpaqueJson from "../../domain/json/OpaqueJson.ts"
import { find, RawJson } from "../../domain/json/RawJson.ts"
import { readValid } from "../../domain/json/Reader.ts"
import { scan } from "../../domain/json/Scanner.ts"
import { captured, type Found, object, raw, record } from "../../domain/json/Shape.ts"
import { Kind } from "../../domain/json/tables.ts"
import type { Writable } from "../../domain/json/Writer.ts"
import * as Limits from "../../domain/Limits.ts"
import { isPlainTool } from "../../domain/TaskRequest.ts"
import type { PassedCall } from "../../domain/ToolCall.ts"

/** Questions of one poll. The others follow when these are answered. */
export const maxQuestions = 32
/** Characters of a call's arguments in its question. */
const maxArguments = 2000
/** Bytes of a schema that a question repeats. */
const maxSchema = 8 * 1024

type JsonObject = { readonly [key: string]: Writable }

const isObject = (value: unknown): value is JsonObject => Predicate.isObject(value) && !Array.isArray(value)

const primitives: ReadonlySet<unknown> = new Set(["string", "number", "integer", "boolean"])

/** A schema that a form can show: an object of primitives. */
const isForm = (schema: unknown): schema is JsonObject =>
  isObject(schema) && schema["type"] === "object" && isObject(schema["properties"])
  && Object.values(schema["properties"]).every((field) => isObject(field) && primitives.has(field["type"]))
  && JSON.stringify(schema).length <= maxSchema

/** Asks for any output as a text, which may be JSON. */
const anyOutput = {
  type: "object",
  properties: {
    output: { type: "string", description: "The result of the tool: a text, or JSON." },
    failed: { type: "boolean", description: "True if the tool failed." }
  },
  required: ["output"]
}

/** The schemas of the outputs that forms can show, by the names of the tools. */
export const formsOf = (tools: unknown): ReadonlyMap<string, JsonObject> =>
  new Map((Array.isArray(tools) ? tools : []).flatMap((tool) => {
    const schema = isPlainTool(tool) ? tool.output_schema : undefined
    return isPlainTool(tool) && isForm(schema) ? [[tool.name, schema] as const] : []
  }))

/** Unique in the life of a task. */
export const keyOf = (leg: number, { id }: PassedCall) => `${leg}-${id}`

const beginOf = (args: PassedCall["arguments"]): string => {
  const json = OpaqueJson.encode(OpaqueJson.fromValue(args))
  const begin = OpaqueJson.textOf(json.subarray(0, maxArguments))
  return json.length > maxArguments ? `${begin}…` : begin
}

export const questionOf = (call: PassedCall, form: JsonObject | undefined) => ({
  method: "elicitation/create",
  params: {
    mode: "form",
    message: `The assistant calls ${call.name.slice(0, 128)} with ${beginOf(call.arguments)}. What is the result?`,
    requestedSchema: form ?? anyOutput
  }
})

/** The JSON inside a text, if it is an object or an array. */
const outputOf = (text: string): Writable => {
  const bytes = OpaqueJson.encode(text)
  const { problem, root } = scan(bytes, raw, Limits.jsonDepth)
  return problem === undefined && root !== undefined && /^\s*[[{]/.test(text)
    ? new RawJson(root.kind, bytes, root.start, root.end)
    : text
}

const responses = record(object({ action: captured, content: raw }), Limits.toolCalls)

/** The answers of a request by their keys. */
export const read = ({ bytes }: RawJson): Effect.Effect<ReadonlyMap<string, Found>> =>
  Effect.map(find(responses, bytes), ({ members }) => {
    const answers = new Map<string, Found>()
    for (let index = 1; index < members.length; index += 2) {
      const [name, answer] = [members[index - 1], members[index]]
      if (name !== undefined && answer !== undefined) answers.set(String(readValid(bytes, name.start)), answer)
    }
    return answers
  })

/** The result that an answer means, as JSON; undefined for one that means nothing. */
export const resultOf = (call: PassedCall, answer: Found, bytes: Uint8Array, hasForm: boolean): string | undefined => {
  const resultWith = (output: Writable, isError: boolean) =>
    OpaqueJson.toText(OpaqueJson.fromValue({ tool_call_id: call.id, output, is_error: isError }))
  const action = answer.field("action")?.text
  if (action === "decline") return resultWith("The user declined.", true)
  const content = answer.field("content")
  if (action !== "accept" || content?.kind !== Kind.object) return undefined
  if (hasForm) return resultWith(new RawJson(Kind.object, bytes, content.start, content.end), false)
  // The kind of the content was checked.
  const { failed, output } = readValid(bytes, content.start) as { readonly [field: string]: unknown }
  return Predicate.isString(output) ? resultWith(outputOf(output), failed === true) : undefined
}
