/** A conversation as parts of a task: the messages of `turns`, and results of tools. */
import { Schema } from "effect"
import * as OpaqueJson from "../../domain/json/OpaqueJson.ts"
import * as RawJson from "../../domain/json/RawJson.ts"
import type { Writable } from "../../domain/json/Writer.ts"
import { type ToolResults, toToolResults } from "../../domain/ToolCall.ts"
import type { Conversation, Entry, Part } from "./Items.ts"

type Output = Extract<Entry, { readonly kind: "output" }>

export const outputsOf = (history: ReadonlyArray<Entry>): ReadonlyArray<Output> =>
  history.flatMap((entry) => entry.kind === "output" ? [entry] : [])

/** The outputs at the end of the conversation: those that the model has not seen. */
export const trailingOutputs = ({ history, input }: Conversation): ReadonlyArray<Output> =>
  input === null ? outputsOf(history.slice(history.findLastIndex(({ kind }) => kind !== "output") + 1)) : []

const isText = Schema.is(RawJson.Text)

/** A message of a tool has a text. */
const toolMessage = ({ id, output }: Output): Writable => ({
  role: "tool",
  tool_call_id: id,
  content: isText(output) ? output : OpaqueJson.toText(OpaqueJson.fromValue(output))
})

/** Files were uploaded before. */
const contentOf = (content: ReadonlyArray<Part>): Writable => {
  const [first, ...others] = content
  return first?.type === "text" && others.length === 0 ? first.text : content
}

/** Calls that follow each other are one message of the assistant. */
export const messagesOf = (history: ReadonlyArray<Entry>): ReadonlyArray<Writable> => {
  const messages: Array<Writable> = []
  let calls: Array<Writable> = []
  const endCalls = () => {
    if (calls.length > 0) messages.push({ role: "assistant", content: "", tool_calls: calls })
    calls = []
  }
  for (const entry of history) {
    if (entry.kind === "call") {
      calls.push(entry.json)
      continue
    }
    endCalls()
    if (entry.kind === "message") messages.push({ role: entry.role, content: contentOf(entry.content) })
    if (entry.kind === "output") messages.push(toolMessage(entry))
  }
  endCalls()
  return messages
}

export const outputWithoutCall = (history: ReadonlyArray<Entry>): Output | undefined => {
  const calls = new Set(history.flatMap((entry) => entry.kind === "call" ? [entry.id] : []))
  return outputsOf(history).find(({ id }) => !calls.has(id))
}

export const resultsOf = (outputs: ReadonlyArray<Output>): ToolResults =>
  toToolResults(outputs.map(({ id, output }) => ({ tool_call_id: id, output, is_error: false })))
