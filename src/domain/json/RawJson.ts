/**
 * JSON that is passed on as its sender wrote it, byte for byte: digits, escapes, the order of keys and repeated keys included. The schemas
 * here stand for it in the schema of a body, and `decodable` gives it to them.
 */
import { Effect, Predicate, Schema, SchemaIssue, SchemaTransformation } from "effect"
import { define, readValid as readPlain } from "./Reader.ts"
import { scan, type Scanner, scanWithPauses } from "./Scanner.ts"
import type { Found, Shape } from "./Shape.ts"
import { Kind, textOfToken } from "./tables.ts"

type JsonObject = { readonly [key: string]: Schema.Json }

const shortBytes = 32

const backslash = 0x5c

/** A valid JSON value. */
export class RawJson {
  readonly kind: Kind
  /** Items of an array, if they were counted. */
  readonly count: number
  /** Set of the kinds of these items. */
  readonly kinds: number

  // A view of its own takes more memory than a small value.
  readonly #source: Uint8Array
  readonly #from: number
  readonly #to: number

  /** `source` has the value from `from` to `to`, and lives as long as this. */
  constructor(kind: Kind, source: Uint8Array, from = 0, to = source.length, count = 0, kinds = 0) {
    this.kind = kind
    this.count = count
    this.kinds = kinds
    this.#source = source
    this.#from = from
    this.#to = to
  }

  /** UTF-8, without white space around the value. */
  get bytes(): Uint8Array {
    return this.#source.subarray(this.#from, this.#to)
  }

  /** The JSON as text, if it is short and ASCII: cheaper than bytes of its own. */
  get shortText(): string | undefined {
    if (this.#to - this.#from > shortBytes) return undefined
    let text = ""
    for (let index = this.#from; index < this.#to; index++) {
      const byte = this.#source[index]!
      if (byte > 0x7f) return undefined
      text += String.fromCharCode(byte)
    }
    return text
  }

  /** The bytes between the brackets of an array, to be spliced into another one. */
  get items(): Uint8Array {
    return this.#source.subarray(this.#from + 1, this.#to - 1)
  }
}

/** The text of a JSON string. */
export const stringOf = (text: string | RawJson): string =>
  Predicate.isString(text) ? text : textOfToken(text.bytes, 0, text.bytes.length, text.bytes.includes(backslash))

const encoder = new TextEncoder()

/** The JSON of a text. */
export const ofText = (text: string | RawJson): RawJson =>
  text instanceof RawJson ? text : new RawJson(Kind.string, encoder.encode(JSON.stringify(text)))

/** The items of an array, to be spread into another one. Those of a raw array are one item. */
export const itemsOf = <A>(array: RawJson | ReadonlyArray<A>): ReadonlyArray<A | RawJson> =>
  !(array instanceof RawJson) ? array : array.count === 0 ? [] : [new RawJson(Kind.object, array.items)]

interface Leaf<A> {
  readonly expected: string
  readonly isRaw: (json: RawJson) => boolean
  readonly isPlain: (value: unknown) => value is A
  /** The schema of the same values as JavaScript has them, for documents and examples. */
  readonly plain: Schema.Codec<A>
  readonly annotations?: Schema.Annotations.Declaration<A | RawJson>
}

/** Accepts the bytes of a document, and JavaScript values of callers in this process. */
const declare = <A>({ annotations, expected, isPlain, isRaw, plain }: Leaf<A>): Schema.Codec<A | RawJson, A> => {
  const is = (value: unknown): value is A | RawJson => value instanceof RawJson ? isRaw(value) : isPlain(value)
  return Schema.declareConstructor<A | RawJson, A>()(
    [],
    () => (value, ast, options) =>
      is(value) ? Effect.succeed(value) : Effect.fail(new SchemaIssue.InvalidType(ast, value, options)),
    {
      expected,
      toCodecJson: () => undefined,
      toCodecArbitrary: () => Schema.link<A | RawJson>()(plain, SchemaTransformation.passthrough({ strict: false })),
      ...annotations
    }
  )
}

/** Null is null, in every schema. */
export const Any = declare({
  expected: "any JSON value",
  isRaw: () => true,
  isPlain: (value): value is Schema.Json => value !== undefined,
  plain: Schema.Json
})

export const AnyObject = declare<JsonObject>({
  expected: "an object",
  isRaw: ({ kind }) => kind === Kind.object,
  isPlain: (value): value is JsonObject => Predicate.isObject(value),
  plain: Schema.Record(Schema.String, Schema.Json),
  annotations: { identifier: "JsonObject", description: "Any JSON object." }
})

export const Text = declare<string>({
  expected: "string",
  isRaw: ({ kind }) => kind === Kind.string,
  isPlain: Predicate.isString,
  plain: Schema.String,
  annotations: {
    toCodecJson: () =>
      Schema.link<string | RawJson>()(Schema.String, SchemaTransformation.passthrough({ strict: false }))
  }
})

/** A declared schema with a description in documents, which show the plain schema. */
export const described = <A>(schema: Schema.Codec<A | RawJson, A>, description: string) =>
  schema.annotateKey({ description })

export const Objects = declare<ReadonlyArray<JsonObject>>({
  expected: "an array of objects",
  isRaw: ({ kind, kinds }) => kind === Kind.array && (kinds | Kind.object) === Kind.object,
  isPlain: (value): value is ReadonlyArray<JsonObject> => Array.isArray(value) && value.every(Predicate.isObject),
  plain: Schema.Array(Schema.Record(Schema.String, Schema.Json)),
  annotations: { identifier: "JsonObjects", countsItems: true }
})

/** Bytes of a text that the gateway reads. None that is accepted is so long, and decoding would take a long time. */
const maxTextBytes = 1024 * 1024

/** A field whose value is longer than the gateway reads, or a list with more items than its shape reports. */
export interface Excess {
  readonly path: ReadonlyArray<string | number>
  /** Items, pairs or bytes. */
  readonly maximum: number
  readonly unit: "items" | "pairs" | "bytes"
}

/** `path` is the one of the value that is being read. */
interface Source {
  readonly bytes: Uint8Array
  readonly path: Array<string | number>
  readonly excess: Array<Excess>
}

/** Stands for a value of a kind that its schema refuses, so that it does not matter how large it is. */
const placeholder = (kind: Kind) => kind === Kind.object ? {} : []

const exceed = ({ excess, path }: Source, maximum: number, unit: Excess["unit"]): void =>
  void excess.push({ path: [...path], maximum, unit })

const leafOf = (found: Found, source: Source): unknown => {
  const { count, end, kind, kinds, shape, start } = found
  const { bytes } = source
  if (kind === Kind.null) return null
  if (shape.isRaw) return new RawJson(kind, bytes, start, end, count, kinds)
  if (kind === Kind.object || kind === Kind.array) return placeholder(kind)
  if (end - start <= maxTextBytes) return readPlain(bytes, start)
  exceed(source, maxTextBytes, "bytes")
  return ""
}

const memberOf = (found: Found, source: Source, name: string | number): unknown => {
  source.path.push(name)
  const value = valueOf(found, source)
  source.path.pop()
  return value
}

const pairsOf = ({ members }: Found, source: Source): Record<string, unknown> => {
  const object: Record<string, unknown> = {}
  for (let index = 1; index < members.length; index += 2) {
    const key = String(leafOf(members[index - 1]!, source))
    define(object, key, memberOf(members[index]!, source, key))
  }
  return object
}

const fieldsOf = ({ members, shape: { names } }: Found, source: Source): Record<string, unknown> => {
  const object: Record<string, unknown> = {}
  for (let index = 0; index < names.length; index++) {
    const [name, member] = [names[index]!, members[index]]
    if (member !== undefined) object[name] = memberOf(member, source, name)
  }
  return object
}

const valueOf = (found: Found, source: Source): unknown => {
  const { kind, members, shape } = found
  if (found.isTooLong) {
    exceed(source, shape.maxItems, kind === Kind.object ? "pairs" : "items")
    return placeholder(kind)
  }
  // Finds inside a raw object belong to the caller that collects them.
  if (kind === Kind.object && shape.entersObject && !shape.isRaw) {
    return shape.pairs === undefined ? fieldsOf(found, source) : pairsOf(found, source)
  }
  return kind === Kind.array && shape.item !== undefined
    ? members.map((member, index) => memberOf(member!, source, index))
    : leafOf(found, source)
}

/**
 * The value of what was found, for the decoder of the schema that the shape is of: raw leaves are `RawJson`, everything else is a JavaScript
 * value, and null always is. A list in `excess` stands for its field as an empty one.
 */
export const decodable = (
  found: Found,
  bytes: Uint8Array
): { readonly value: unknown; readonly excess: ReadonlyArray<Excess> } => {
  const excess: Array<Excess> = []
  return { value: valueOf(found, { bytes, path: [], excess }), excess }
}

const rootOf = ({ root }: Scanner): Found => {
  if (root === undefined) throw new Error("a stored document is not valid JSON")
  return root
}

/** A valid document has been checked by bounds of its own. */
const anyDepth = Infinity

/** The values of a shape in a document that is known to be valid, found with pauses if it is long. */
export const find = (shape: Shape, bytes: Uint8Array): Effect.Effect<Found> =>
  Effect.map(scanWithPauses(bytes, shape, anyDepth), rootOf)

/** The value of a document that is known to be valid, found with pauses if it is long. */
export const read = (shape: Shape, bytes: Uint8Array): Effect.Effect<unknown> =>
  Effect.map(find(shape, bytes), (found) => decodable(found, bytes).value)

/** The same of one that is small enough to be scanned in one piece. */
export const readValid = (shape: Shape, bytes: Uint8Array): unknown =>
  decodable(rootOf(scan(bytes, shape, anyDepth)), bytes).value
