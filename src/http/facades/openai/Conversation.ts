/** The items of a request as the conversation of a task: earlier messages, the new input, and outputs of tools. */
import { Predicate, type Schema } from "effect"
import type { JsonObject } from "../../../domain/OpaqueJson.ts"
import type { InputItem } from "../../../domain/TaskRequest.ts"
import type { Item } from "./Request.ts"

export interface Conversation {
  /** Messages in the form of a turn's `messages`. */
  readonly turns: ReadonlyArray<JsonObject>
  readonly input: ReadonlyArray<InputItem>
}

interface ToolOutput {
  readonly id: string
  readonly output: Schema.Json
}

/** The outputs at the end of the input: those that the model has not seen. */
export const trailingOutputs = (items: ReadonlyArray<Item>): ReadonlyArray<ToolOutput> =>
  items.slice(items.findLastIndex(({ kind }) => kind !== "output") + 1).flatMap((item) =>
    item.kind === "output" ? [item] : []
  )

const contentOf = (content: ReadonlyArray<InputItem>): Schema.Json => {
  const [first, ...others] = content
  return first?.type === "text" && others.length === 0 ? first.text : JSON.parse(JSON.stringify(content))
}

const textOf = (output: Schema.Json) => Predicate.isString(output) ? output : JSON.stringify(output)

/** Calls that follow each other are one message of the assistant. */
const messagesOf = (items: ReadonlyArray<Item>): ReadonlyArray<JsonObject> => {
  const messages: Array<JsonObject> = []
  let calls: Array<Schema.Json> = []
  for (const item of items) {
    if (item.kind !== "call") calls = []
    if (item.kind === "message") messages.push({ role: item.role, content: contentOf(item.content) })
    if (item.kind === "output") messages.push({ role: "tool", tool_call_id: item.id, content: textOf(item.output) })
    if (item.kind !== "call") continue
    if (calls.length === 0) messages.push({ role: "assistant", content: "", tool_calls: calls })
    calls.push({ ...item.call })
  }
  return messages
}

/** Stands for the user's message after outputs of tools whose task is gone. A task has at least one item of input. */
const resumption: InputItem = { type: "text", text: "Continue." }

const isOfUser = (item: Item) => item.kind === "message" && item.role === "user"

const isOfConversation = (item: Item) =>
  item.kind === "call" || item.kind === "output" || (item.kind === "message" && item.role === "assistant")

/** Everything up to the last message or call of the assistant is history; what the user says after it is the input. */
export const of = (items: ReadonlyArray<Item>): Conversation => {
  const end = items.findLastIndex(isOfConversation) + 1
  const tail = items.slice(end)
  const input = tail.flatMap((item) => item.kind === "message" && item.role === "user" ? item.content : [])
  return {
    turns: messagesOf([...items.slice(0, end), ...tail.filter((item) => !isOfUser(item))]),
    input: input.length === 0 ? [resumption] : input
  }
}
