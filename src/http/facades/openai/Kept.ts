/** The stored part of a request: the fields that a response repeats, and the input. */
import { Schema } from "effect"
import * as Limits from "../../../domain/Limits.ts"
import { JsonObject, JsonObjects, JsonValue } from "../../../domain/OpaqueJson.ts"

const Kept = Schema.Struct({
  model: Schema.String,
  instructions: Schema.NullOr(Schema.String),
  previous_response_id: Schema.NullOr(Schema.String),
  metadata: JsonObject,
  tools: JsonObjects,
  background: Schema.Boolean,
  input: Schema.optional(JsonValue)
})
export type Kept = typeof Kept.Type

export const decode = Schema.decodeUnknownSync(Schema.fromJsonString(Kept))

const encoder = new TextEncoder()

/** Whether a text is small enough to be kept. */
export const fits = (text: string): boolean => encoder.encode(text).length <= Limits.keptRequestBytes

/** JSON that `fits`. The input is left out first, and then instructions and tools. */
export const encode = (kept: Kept): string => {
  const { input: _, ...echoed } = kept
  const short = { ...echoed, instructions: null, tools: [] }
  const texts = [kept, echoed, short].map((one) => JSON.stringify(one))
  return texts.find(fits)
    ?? JSON.stringify({ ...short, model: echoed.model.slice(0, 64), metadata: {}, previous_response_id: null })
}
