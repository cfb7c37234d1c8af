/** The stored part of a request: the fields that a response repeats, and the input. */
import { Schema } from "effect"
import * as OpaqueJson from "../../domain/json/OpaqueJson.ts"
import * as RawJson from "../../domain/json/RawJson.ts"
import { shapeOf } from "../../domain/json/Shape.ts"
import type { Writable } from "../../domain/json/Writer.ts"
import * as Limits from "../../domain/Limits.ts"

const Kept = Schema.Struct({
  model: Schema.String,
  instructions: Schema.NullOr(RawJson.Text),
  previous_response_id: Schema.NullOr(Schema.String),
  metadata: RawJson.AnyObject,
  tools: RawJson.Objects,
  background: Schema.Boolean,
  store: Schema.Boolean,
  max_output_tokens: Schema.NullOr(Schema.Int),
  text: Schema.Struct({ format: RawJson.AnyObject }),
  input: Schema.optional(RawJson.Any)
})
export type Kept = typeof Kept.Type

const decodeValue = Schema.decodeUnknownSync(Kept)
const shape = shapeOf(Kept)

export const decode = (text: string): Kept => decodeValue(RawJson.readValid(shape, OpaqueJson.encode(text)))

/** True if a text is small enough to be kept. */
export const fits = (text: string): boolean => OpaqueJson.encode(text).length <= Limits.keptRequestBytes

const write = (value: Writable) => OpaqueJson.toText(OpaqueJson.fromValue(value))

/** True if a value is surely too long. */
const isTooLong = (value: unknown) => value instanceof RawJson.RawJson && value.bytes.length > Limits.keptRequestBytes

/** JSON that `fits`. The input is left out first, and then instructions, tools and the format of the text. */
export const encode = (kept: Kept): string => {
  const { input, ...echoed } = kept
  const short = { ...echoed, instructions: null, tools: [], text: { format: { type: "text" } } }
  const forms: ReadonlyArray<{ readonly [name: string]: Writable }> = [
    ...(isTooLong(input) || isTooLong(kept.text.format) ? [] : [{ ...kept }]),
    ...(isTooLong(kept.tools) || isTooLong(kept.text.format) ? [] : [echoed]),
    short
  ]
  for (const form of forms) {
    const text = write(form)
    if (fits(text)) return text
  }
  return write({ ...short, model: echoed.model.slice(0, 64), metadata: {}, previous_response_id: null })
}
