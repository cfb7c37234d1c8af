/** JSON that the gateway stores and returns without reading it: turns, and the state of the core. */
import { Effect, Predicate, Result, Schema, SchemaGetter, SchemaIssue, SchemaTransformation } from "effect"
import { smallText } from "../Limits.ts"
import { read } from "./Reader.ts"
import { type Writable, write } from "./Writer.ts"

/** Opaque JSON, as it is stored and sent: text, or UTF-8 if it is large, because every conversion copies it. */
export const OpaqueJson = Schema.Union([Schema.String, Schema.Uint8Array]).pipe(Schema.brand("OpaqueJson"))
export type OpaqueJson = typeof OpaqueJson.Type

/** Whether JSON is no small text. */
export const isLarge = ({ length }: { readonly length: number }): boolean => length > smallText

const encoder = new TextEncoder()
const decoder = new TextDecoder()

/** The text of UTF-8. */
export const textOf = (bytes: Uint8Array): string => decoder.decode(bytes)

export const fromText = (text: string): OpaqueJson => OpaqueJson.make(isLarge(text) ? encoder.encode(text) : text)

export const toText = (json: OpaqueJson): string => typeof json === "string" ? json : textOf(json)

/** Opaque JSON from UTF-8. */
const fromBytes = (bytes: Uint8Array): OpaqueJson => OpaqueJson.make(isLarge(bytes) ? bytes : textOf(bytes))

/** Writes a value: the bytes of raw leaves are spliced. Fields that are undefined are left out. */
export const fromValue = (value: Writable): OpaqueJson => {
  const pieces = write(value)
  // Arrays of bytes cost more than strings while they are small: each is memory outside of V8's heap.
  return isLarge({ length: sizeOf(pieces) })
    ? OpaqueJson.make(concat(toBytes(pieces)))
    : OpaqueJson.make(pieces.map((piece) => typeof piece === "string" ? piece : textOf(piece)).join(""))
}

export const FromBytes = Schema.Uint8Array.pipe(
  Schema.decodeTo(OpaqueJson, {
    decode: SchemaGetter.transform(fromBytes),
    encode: SchemaGetter.forbidden(() => "only decoded")
  })
)

/** UTF-8 of the pieces, one after another. Pieces that are bytes are not copied. */
export const toBytes = (pieces: ReadonlyArray<string | Uint8Array>): ReadonlyArray<Uint8Array> => {
  const bytes: Array<Uint8Array> = []
  let text = ""
  const endText = () => {
    if (text !== "") bytes.push(encoder.encode(text))
    text = ""
  }
  for (const piece of pieces) {
    if (typeof piece === "string") text += piece
    else {
      endText()
      bytes.push(piece)
    }
  }
  endText()
  return bytes
}

/** Bytes of all pieces, or characters of those that are text. */
export const sizeOf = (pieces: ReadonlyArray<string | Uint8Array>): number =>
  pieces.reduce((size, piece) => size + piece.length, 0)

/** One array of all pieces. */
export const concat = (pieces: ReadonlyArray<Uint8Array>): Uint8Array => {
  const [first, ...others] = pieces
  if (first !== undefined && others.length === 0) return first
  const all = new Uint8Array(sizeOf(pieces))
  let offset = 0
  for (const piece of pieces) {
    all.set(piece, offset)
    offset += piece.length
  }
  return all
}

/** UTF-8 of any opaque JSON. */
export const encode = (json: string | Uint8Array): Uint8Array => typeof json === "string" ? encoder.encode(json) : json

/** The pieces as one: bytes if one of them is. */
export const join = (pieces: ReadonlyArray<string | Uint8Array>): OpaqueJson =>
  pieces.every(Predicate.isString) ? fromText(pieces.join("")) : OpaqueJson.make(concat(toBytes(pieces)))

/** Room for the UTF-8 of every text that is not large. */
const scratch = new Uint8Array(3 * smallText)

/** The JavaScript value of JSON, whose type is not checked. Throws if it is not valid. Digits beyond 2^53 are not kept. */
export const toValue = <A = Schema.Json>(json: OpaqueJson): A => {
  const isText = typeof json === "string" && !isLarge(json)
  const bytes = isText ? scratch.subarray(0, encoder.encodeInto(json, scratch).written) : encode(json)
  return Result.getOrThrow(read(bytes)) as A
}

const Text = Schema.String.pipe(
  Schema.decodeTo(Schema.Unknown, {
    decode: SchemaGetter.transformEffect((text, options) =>
      Result.match(read(encode(text)), {
        onSuccess: (value): Effect.Effect<unknown, SchemaIssue.Issue> => Effect.succeed(value),
        onFailure: () => Effect.fail(new SchemaIssue.InvalidValue({ expected: "a valid JSON string" }, text, options))
      })
    ),
    encode: SchemaGetter.transform((value) => JSON.stringify(value))
  })
)

/** Like `Schema.fromJsonString`, whose `JSON.parse` may give a document the keys of another one. */
export const fromJsonText = <S extends Schema.Top>(schema: S) => Text.pipe(Schema.decodeTo(schema))

export type JsonObject = { readonly [key: string]: Schema.Json }

const AnyObject = Schema.Record(Schema.String, Schema.Json)

/** A JSON object, kept by reference so that every key survives, `__proto__` included. `A` is its expected shape, which is not checked. */
export const opaqueObject = <A extends object>(identifier: string) =>
  Schema.declare(
    (value): value is A => Predicate.isObject(value),
    {
      identifier,
      description: "Any JSON object.",
      expected: "an object",
      toCodecJson: () => undefined,
      toCodecArbitrary: () => Schema.link<A>()(AnyObject, SchemaTransformation.passthrough({ strict: false }))
    }
  )

export const JsonObject = opaqueObject<JsonObject>("JsonObject")

export const isJsonObject = (value: unknown): value is JsonObject => Predicate.isObject(value)

/** Any JSON value, taken by reference and not looked into: it has been parsed from JSON text. */
export const JsonValue = Schema.declare(
  (value): value is Schema.Json => value !== undefined,
  {
    expected: "any JSON value",
    toCodecJson: () => undefined,
    toCodecArbitrary: () => Schema.link<Schema.Json>()(Schema.Json, SchemaTransformation.passthrough())
  }
)
