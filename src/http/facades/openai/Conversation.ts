/** A conversation as parts of a task: the messages of `turns`, and results of tools. */
import * as OpaqueJson from "../../../domain/OpaqueJson.ts"
import type { ToolResults } from "../../../domain/ToolCall.ts"
import type { Conversation, Entry } from "./Items.ts"

type Output = Extract<Entry, { readonly kind: "output" }>

export const outputsOf = (history: ReadonlyArray<Entry>): ReadonlyArray<Output> =>
  history.flatMap((entry) => entry.kind === "output" ? [entry] : [])

/** The outputs at the end of the conversation: those that the model has not seen. */
export const trailingOutputs = ({ history, input }: Conversation): ReadonlyArray<Output> =>
  input === null ? outputsOf(history.slice(history.findLastIndex(({ kind }) => kind !== "output") + 1)) : []

/** A message of a tool has a text. */
const toolMessage = ({ id, output }: Output) => {
  const content = output.startsWith("\"") ? output : JSON.stringify(output)
  return `{"role":"tool","tool_call_id":${JSON.stringify(id)},"content":${content}}`
}

/** JSON of each message. Calls that follow each other are one message of the assistant. */
export const messagesOf = (history: ReadonlyArray<Entry>): ReadonlyArray<string> => {
  const messages: Array<string> = []
  let calls: Array<string> = []
  const endCalls = () => {
    if (calls.length > 0) messages.push(`{"role":"assistant","content":"","tool_calls":[${calls.join()}]}`)
    calls = []
  }
  for (const entry of history) {
    if (entry.kind === "call") {
      calls.push(entry.json)
      continue
    }
    endCalls()
    if (entry.kind === "message") messages.push(entry.json)
    if (entry.kind === "output") messages.push(toolMessage(entry))
  }
  endCalls()
  return messages
}

/** An output whose call is not in the history. */
export const outputWithoutCall = (history: ReadonlyArray<Entry>): Output | undefined => {
  const calls = new Set(history.flatMap((entry) => entry.kind === "call" ? [entry.id] : []))
  return outputsOf(history).find(({ id }) => !calls.has(id))
}

export const resultsOf = (outputs: ReadonlyArray<Output>): ToolResults => {
  const results = outputs.map(({ id, output }) =>
    `{"tool_call_id":${JSON.stringify(id)},"output":${output},"is_error":false}`
  )
  return { ids: outputs.map(({ id }) => id), text: OpaqueJson.fromText(`[${results.join()}]`) }
}
