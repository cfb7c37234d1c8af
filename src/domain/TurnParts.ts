/** Parts of a stored turn, found by `RawJson.find`. The service stores turns unread, so what has another shape is skipped. */
import { concat, encode } from "./json/OpaqueJson.ts"
import { RawJson } from "./json/RawJson.ts"
import { array, captured, counted, type Found, object, raw } from "./json/Shape.ts"
import { Kind } from "./json/tables.ts"
import type { Writable } from "./json/Writer.ts"

/** The first items of a longer output. */
const items = 10_000

/** The output as far as `textOf` reads it. */
export const output = array(object({ type: captured, text: raw }), items)

/** Items of an array; none of anything else. */
export const membersOf = (found: Found | undefined) => found?.kind === Kind.array ? found.members : []

const blankLine = encode("\\n\\n")
const quote = encode("\"")

/** The JSON texts as one, separated by blank lines. It shares nothing with them. Undefined if it is empty. */
export const joinTexts = (texts: ReadonlyArray<Uint8Array>): RawJson | undefined => {
  const pieces = texts.flatMap((text, index) => [index === 0 ? quote : blankLine, text.subarray(1, -1)])
  const joined = concat([...pieces, quote])
  return texts.length === 0 || joined.length === 2 ? undefined : new RawJson(Kind.string, joined)
}

/** The text items of the output, separated by blank lines. */
export const textOf = (turn: Found, bytes: Uint8Array): RawJson | undefined =>
  joinTexts(
    membersOf(turn.field("output")).flatMap((item) => {
      const text = item?.field("text")
      return text?.kind === Kind.string && item?.field("type")?.text === "text"
        ? [bytes.subarray(text.start, text.end)]
        : []
    })
  )

/** The turn as far as `messagesOf` reads it. */
export const conversation = object({ messages: counted, output })

/** The messages in full, or else the text as the message of the assistant. */
export const messagesOf = (turn: Found, bytes: Uint8Array): ReadonlyArray<Writable> => {
  const messages = turn.field("messages")
  if (messages?.kind === Kind.array && messages.kinds === Kind.object) {
    return [new RawJson(Kind.object, bytes, messages.start + 1, messages.end - 1)]
  }
  const text = textOf(turn, bytes)
  return text === undefined ? [] : [{ role: "assistant", content: text }]
}
