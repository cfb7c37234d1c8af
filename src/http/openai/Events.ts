/**
 * The events of a response. Their sequence numbers are a function of the text, so that any node continues a stream after any
 * number without stored events: 0 to 2 begin it, 3 and 4 begin the message, 4 + n is the delta that ends at UTF-16 unit n, and
 * numbers from 2³⁰ end it.
 */
import type { Writable } from "../../domain/json/Writer.ts"
import * as Ids from "./Ids.ts"
import { type Item, part, type RenderedResponse, toJson } from "./Response.ts"

export interface ResponseEvent {
  readonly type: string
  readonly sequence_number: number
  readonly [field: string]: Writable
}

const messageNumber = 3
const firstDelta = 4
const closingNumber = 2 ** 30

/** The highest number that a client may continue after. */
export const maxNumber = 2 ** 31

/** The first events, whatever happened since. */
export const opening = ({ json }: RenderedResponse): ReadonlyArray<ResponseEvent> => {
  const empty = { ...json, output: [], error: null, usage: null, completed_at: null }
  const queued = { ...empty, status: "queued" }
  const started = { ...empty, status: "in_progress" }
  return [
    { type: "response.created", sequence_number: 0, response: queued },
    { type: "response.queued", sequence_number: 1, response: queued },
    { type: "response.in_progress", sequence_number: 2, response: started }
  ]
}

/** The deltas of one connection. A text comes in slices, each of which is sent as one delta. */
export const makeDeltas = (id: Ids.LegId, after: number) => {
  const at = { item_id: Ids.messageId(id), output_index: 0, content_index: 0 }
  /** UTF-16 units that the client has. */
  let sentLength = after >= closingNumber ? Infinity : Math.max(0, after - firstDelta)
  /** Their text; undefined when another connection sent them. */
  let sent: string | undefined = sentLength === 0 ? "" : undefined

  const append = (delta: string): ReadonlyArray<ResponseEvent> => {
    const item = { id: at.item_id, type: "message", status: "in_progress", role: "assistant", content: [] }
    const begin = sentLength > 0 ? [] : [
      { type: "response.output_item.added", sequence_number: messageNumber, output_index: 0, item },
      { type: "response.content_part.added", sequence_number: firstDelta, ...at, part: part("") }
    ]
    sentLength += delta.length
    const sequence_number = firstDelta + sentLength
    return [...begin, { type: "response.output_text.delta", sequence_number, ...at, delta, logprobs: [] }]
  }

  /** The events of each slice of a text that follow those up to number `after`; none if it does not begin with what was sent. */
  const ofSlices = function*(slices: Iterable<string>): Generator<ReadonlyArray<ResponseEvent>> {
    let known = sent
    let skipped = sentLength
    for (const slice of slices) {
      const same = Math.min(skipped, slice.length)
      if (known !== undefined && !known.startsWith(slice.slice(0, same))) return
      known = known?.slice(same)
      skipped -= same
      const delta = slice.slice(same)
      yield delta === "" ? [] : append(delta)
    }
  }

  /** The events of a version of the text. */
  const ofText = (text: string): ReadonlyArray<ResponseEvent> => {
    const events = [...ofSlices([text])].flat()
    if (events.length > 0) sent = text
    return events
  }

  return { ofSlices, ofText }
}

interface Unnumbered {
  readonly type: string
  readonly [field: string]: Writable
}

type ItemOf<Type> = Extract<Item, { readonly type: Type }>

const endOfMessage = (item: ItemOf<"message">): ReadonlyArray<Unnumbered> => {
  const at = { item_id: item.id, output_index: 0, content_index: 0 }
  return [
    { type: "response.output_text.done", ...at, text: item.text, logprobs: [] },
    { type: "response.content_part.done", ...at, part: part(item.text) },
    { type: "response.output_item.done", output_index: 0, item: toJson(item) }
  ]
}

const eventsOfCall = (call: ItemOf<"function_call">, output_index: number): ReadonlyArray<Unnumbered> => {
  const at = { item_id: call.id, output_index }
  const item = toJson(call)
  return [
    { type: "response.output_item.added", output_index, item: { ...item, status: "in_progress", arguments: "" } },
    { type: "response.function_call_arguments.delta", ...at, delta: call.arguments },
    { type: "response.function_call_arguments.done", ...at, name: call.name, arguments: call.arguments },
    { type: "response.output_item.done", output_index, item }
  ]
}

/** Follows the last event, whatever number the client continues after. */
export const done: ResponseEvent = { type: "done", sequence_number: Infinity }

/** The SDK knows no event for a canceled response; `incomplete` carries its status. */
const lastTypes: Readonly<Record<string, string>> = { failed: "response.failed", cancelled: "response.incomplete" }

export const closing = ({ items, json, status }: RenderedResponse): ReadonlyArray<ResponseEvent> =>
  [
    ...items.flatMap((item, index) => item.type === "message" ? endOfMessage(item) : eventsOfCall(item, index)),
    { type: lastTypes[status] ?? "response.completed", response: json }
  ].map((event, index) => ({ ...event, sequence_number: closingNumber + index }))
