/**
 * The events of a response. Their sequence numbers are a function of the text, so that any node continues a stream after any
 * number without stored events: 0 to 2 begin it, 3 and 4 begin the message, 4 + n is the delta that ends at UTF-16 unit n, and
 * numbers from 2³⁰ end it.
 */
import type { JsonObject } from "../../../domain/OpaqueJson.ts"
import * as Ids from "./Ids.ts"
import { messageText, type ResponseObject } from "./Response.ts"

export interface ResponseEvent {
  readonly type: string
  readonly sequence_number: number
  readonly [field: string]: unknown
}

const messageNumber = 3
const firstDelta = 4
const closingNumber = 2 ** 30

/** The highest number that a client may continue after. */
export const maxNumber = 2 ** 31

/** The first events, whatever happened since. */
export const opening = (response: ResponseObject): ReadonlyArray<ResponseEvent> => {
  const empty = { ...response, output: [], error: null, usage: null, completed_at: null }
  const queued = { ...empty, status: "queued" }
  const started = { ...empty, status: "in_progress" }
  return [
    { type: "response.created", sequence_number: 0, response: queued },
    { type: "response.queued", sequence_number: 1, response: queued },
    { type: "response.in_progress", sequence_number: 2, response: started }
  ]
}

const partOf = (text: string) => ({ type: "output_text", text, annotations: [], logprobs: [] })

/** Returns a function from each version of the text to the events that follow those up to number `after`. */
export const makeDeltas = (id: Ids.LegId, after: number) => {
  const at = { item_id: Ids.messageId(id), output_index: 0, content_index: 0 }
  /** UTF-16 units that the client has. */
  let sentLength = after >= closingNumber ? Infinity : Math.max(0, after - firstDelta)
  /** Their text; undefined when another connection sent them. */
  let sent: string | undefined = sentLength === 0 ? "" : undefined

  return (text: string): ReadonlyArray<ResponseEvent> => {
    if (text.length <= sentLength || !text.startsWith(sent ?? "")) return []
    const item = { id: at.item_id, type: "message", status: "in_progress", role: "assistant", content: [] }
    const begin = sentLength > 0 ? [] : [
      { type: "response.output_item.added", sequence_number: messageNumber, output_index: 0, item },
      { type: "response.content_part.added", sequence_number: firstDelta, ...at, part: partOf("") }
    ]
    const delta = text.slice(sentLength)
    sent = text
    sentLength = text.length
    return [
      ...begin,
      { type: "response.output_text.delta", sequence_number: firstDelta + text.length, ...at, delta, logprobs: [] }
    ]
  }
}

interface Unnumbered {
  readonly type: string
  readonly [field: string]: unknown
}

const endOfMessage = (item: JsonObject, text: string): ReadonlyArray<Unnumbered> => {
  const at = { item_id: item["id"], output_index: 0, content_index: 0 }
  return [
    { type: "response.output_text.done", ...at, text, logprobs: [] },
    { type: "response.content_part.done", ...at, part: partOf(text) },
    { type: "response.output_item.done", output_index: 0, item }
  ]
}

const eventsOfCall = (item: JsonObject, output_index: number): ReadonlyArray<Unnumbered> => {
  const at = { item_id: item["id"], output_index }
  const { arguments: json, name } = item
  return [
    { type: "response.output_item.added", output_index, item: { ...item, status: "in_progress", arguments: "" } },
    { type: "response.function_call_arguments.delta", ...at, delta: json },
    { type: "response.function_call_arguments.done", ...at, name, arguments: json },
    { type: "response.output_item.done", output_index, item }
  ]
}

/** Follows the last event, whatever number the client continues after. */
export const done: ResponseEvent = { type: "done", sequence_number: Infinity }

/** The SDK knows no event for a canceled response; `incomplete` carries its status. */
const lastTypes: Readonly<Record<string, string>> = { failed: "response.failed", cancelled: "response.incomplete" }

export const closing = (response: ResponseObject): ReadonlyArray<ResponseEvent> =>
  [
    ...response.output.flatMap((item, index) =>
      item["type"] === "message" ? endOfMessage(item, messageText(response.output)) : eventsOfCall(item, index)
    ),
    { type: lastTypes[response.status] ?? "response.completed", response }
  ].map((event, index) => ({ ...event, sequence_number: closingNumber + index }))
