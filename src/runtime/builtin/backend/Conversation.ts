/**
 * A conversation in the form of a turn's `messages`, which is stored, returned to the client and converted to a prompt. Files
 * stay references until the model is called.
 */
import { Effect, Predicate, Schema } from "effect"
import type { Prompt } from "effect/ai"
import { isJsonObject, JsonObject, JsonValue } from "../../../domain/json/OpaqueJson.ts"
import { ToolCall, type ToolResult } from "../../../domain/ToolCall.ts"
import type { CreateTurn } from "../AssistantProtocol.ts"

/** The fields of a client's message that the backend reads; it may contain others. */
const Message = Schema.Struct({
  role: Schema.Literals(["system", "user", "assistant", "tool"]),
  content: Schema.optionalKey(JsonValue),
  tool_calls: Schema.optionalKey(Schema.NullOr(Schema.Array(ToolCall))),
  tool_call_id: Schema.optionalKey(Schema.NullOr(Schema.String)),
  is_error: Schema.optionalKey(Schema.NullOr(Schema.Boolean))
})
export type Message = typeof Message.Type

/** Cumulative for the task. The details are those of the provider, if it reports them. */
const Usage = Schema.Struct({
  input_tokens: Schema.Int,
  output_tokens: Schema.Int,
  total_tokens: Schema.Int,
  input_tokens_details: Schema.optionalKey(Schema.Struct({ cached_tokens: Schema.Int })),
  output_tokens_details: Schema.optionalKey(Schema.Struct({ reasoning_tokens: Schema.Int }))
})

const Turn = Schema.Struct({
  output: Schema.Array(JsonObject),
  messages: Schema.Array(Message),
  metadata: Schema.Struct({
    model: Schema.String,
    finish_reason: Schema.String,
    usage: Usage
  })
})
export type Turn = typeof Turn.Type
export const isTurn = Schema.is(Turn)

/** Loads an image that a message refers to; undefined when it is not available. */
export type LoadImage = (file: JsonObject) => Effect.Effect<Prompt.FilePartEncoded | undefined>

const isMessage = Schema.is(Message)

export const start = ({ input, turns }: CreateTurn): ReadonlyArray<Message> => [
  ...turns.filter(isMessage),
  { role: "user", content: input }
]

export const answerTo = (tool_call_id: string, content: Schema.Json, isError: boolean | null = false): Message => ({
  role: "tool",
  tool_call_id,
  content,
  ...(isError === true ? { is_error: true } : {})
})

export const toMessage = ({ is_error, output, tool_call_id }: ToolResult): Message =>
  answerTo(tool_call_id, Predicate.isString(output) ? output : JSON.stringify(output), is_error)

/** The messages up to the calls of the results, then the results; undefined when a turn made no such call. */
export const resume = (
  messages: ReadonlyArray<Message>,
  results: ReadonlyArray<ToolResult>
): ReadonlyArray<Message> | undefined => {
  const ids = new Set(results.map(({ tool_call_id }) => tool_call_id))
  const last = messages.findLastIndex(({ tool_calls }) => tool_calls?.some(({ id }) => ids.has(id)) === true)
  if (last < 0) return undefined
  const end = messages.findIndex(({ role }, index) => index > last && role !== "tool")
  const own = messages.slice(last + 1, end < 0 ? undefined : end).filter(({ tool_call_id }) => !ids.has(tool_call_id!))
  return [...messages.slice(0, last + 1), ...own, ...results.map(toMessage)]
}

const partsOf = (content: Schema.Json | undefined): ReadonlyArray<JsonObject> =>
  (Array.isArray(content) ? content : [{ type: "text", text: content ?? "" }]).filter(isJsonObject)

/** A part as text. A file becomes its id, name and type, so that the model can choose to read it. */
const toText = (part: JsonObject): string => {
  if (Predicate.isString(part["text"])) return part["text"]
  const file = part["file"]
  if (!isJsonObject(file)) return JSON.stringify(part)
  const { id, mime_type, name } = file
  return `[attached file: ${JSON.stringify({ file_id: id, name, mime_type })}]`
}

const textOf = (content: Schema.Json | undefined) => partsOf(content).map(toText).join("\n")

/** Maximum characters of base64 images in one prompt; further images appear only by name. */
const maxImageCharacters = 24 * 1024 * 1024

const toResult = Effect.fnUntraced(function*(
  { id, name }: ToolCall,
  { content, is_error }: Message,
  loadImage: LoadImage
) {
  const images = partsOf(content).flatMap(({ file, type }) => type === "image" && isJsonObject(file) ? [file] : [])
  const files = yield* Effect.forEach(images, loadImage)
  const result: Prompt.ToolResultPartEncoded = {
    type: "tool-result",
    id,
    name,
    isFailure: is_error === true,
    result: textOf(content),
    modelOutput: files.filter(Predicate.isNotUndefined)
  }
  return result
})

/** For each message, the results of its calls: the first later message with the id of the call. */
const answersIn = (messages: ReadonlyArray<Message>) => {
  const later = new Map<string, Message>()
  return messages.map((_, index) => {
    const message = messages[messages.length - 1 - index]!
    const answers = message.tool_calls?.map(({ id }) => later.get(id)) ?? []
    if (message.tool_call_id != null) later.set(message.tool_call_id, message)
    return answers
  }).toReversed()
}

/** The calls with ids that no call before them has: providers repeat ids, or send none, and a late result must not answer a later call. */
export const withNewIds = (
  messages: ReadonlyArray<Message>,
  calls: ReadonlyArray<ToolCall>
): ReadonlyArray<ToolCall> => {
  const known = new Set(messages.flatMap(({ tool_calls }) => tool_calls?.map(({ id }) => id) ?? []))
  return calls.map((call, index) => {
    let id = call.id
    // A client may have sent such ids of ours, in earlier turns without their oldest messages.
    for (let number = messages.length; known.has(id); number++) id = `call_${number}_${index}`
    known.add(id)
    return { ...call, id }
  })
}

/** The number of messages and tool calls of a conversation. */
export const lengthOf = (messages: ReadonlyArray<Message>): number =>
  messages.reduce((sum, { tool_calls }) => sum + 1 + (tool_calls?.length ?? 0), 0)

/** The prompt. Every call in it has exactly one result and every result a call, whatever a client sent. */
export const toPrompt = Effect.fnUntraced(function*(
  instructions: string,
  messages: ReadonlyArray<Message>,
  loadImage: LoadImage
) {
  const answers = answersIn(messages)
  let imageCharacters = 0
  const loadWithin: LoadImage = (file) =>
    imageCharacters >= maxImageCharacters
      ? Effect.undefined
      : Effect.tap(loadImage(file), (image) => {
        imageCharacters += Predicate.isString(image?.data) ? image.data.length : 0
        return Effect.void
      })
  const prompt: Array<Prompt.MessageEncoded> = instructions === "" ? [] : [{ role: "system", content: instructions }]
  for (const [index, { content, role, tool_calls }] of messages.entries()) {
    const calls = tool_calls ?? []
    const text = { type: "text", text: textOf(content) } as const
    switch (role) {
      case "system":
        prompt.push({ role, content: text.text })
        break
      case "user":
        prompt.push({ role, content: partsOf(content).map((part) => ({ type: "text", text: toText(part) })) })
        break
      case "assistant": {
        // A model that ended without a text left an empty message, which providers refuse.
        if (calls.length === 0 && text.text === "") break
        const parts = calls.map(({ arguments: params, id, name }) => ({ type: "tool-call", id, name, params }) as const)
        prompt.push({ role, content: [text, ...parts] })
        if (calls.length === 0) break
        const results = yield* Effect.forEach(
          calls,
          (call, callIndex) =>
            toResult(call, answers[index]?.[callIndex] ?? answerTo(call.id, "No result."), loadWithin)
        )
        prompt.push({ role: "tool", content: results })
      }
    }
  }
  return prompt
})

/** Rounds since the last message of the user, so that their maximum applies to all runs of a task together. */
export const roundsOf = (messages: ReadonlyArray<Message>): number =>
  messages.slice(messages.findLastIndex(({ role }) => role === "user")).filter(({ role }) => role === "assistant")
    .length
