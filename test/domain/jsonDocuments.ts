/** Random JSON documents in odd forms, for property tests: escapes, number forms, white space, and repeated keys. */
import { Arbitrary, Schema } from "effect"

const encoder = new TextEncoder()

const oneOf = <A extends string>(...texts: ReadonlyArray<A>) => Schema.Literals(texts)

const space = oneOf("", "", "", "", " ", "\n", "\t \r\n", "  ")

const piece = oneOf(
  " ",
  ...String.raw`a b 0 / é 語 😀 { ] , \n \\ \" \/ \u0000 \u00E9 \ud83d\ude00 \udc00 \u0061 __proto__
    0123456789abcdefghij 語語語語語語語語`.split(/\s+/),
  "\u2028",
  "\u007f"
)

const Text = Schema.Array(piece).check(Schema.isMaxLength(6))
const textOf = (pieces: typeof Text.Type) => `"${pieces.join("")}"`

const number = oneOf(
  ...`0 -0 1 -1 1.0 12345678 123456789 1234567890 9007199254740993 1234567890123456789 -0.5 1e1 1E+2 1.25e-3 1e400 -1e400
    1e-400 4.9e-324`.split(/\s+/)
)

const literal = oneOf("true", "false", "null")

/** A node of a document: spaces around its parts, and its members. */
type Node =
  | { readonly type: "text"; readonly text: typeof Text.Type }
  | { readonly type: "scalar"; readonly scalar: string }
  | { readonly type: "array"; readonly space: string; readonly items: ReadonlyArray<Node> }
  | {
    readonly type: "object"
    readonly space: string
    readonly fields: ReadonlyArray<{ readonly key: typeof Text.Type; readonly value: Node }>
  }

const Scalar = Schema.Union([
  Schema.Struct({ type: Schema.Literal("text"), text: Text }),
  Schema.Struct({ type: Schema.Literal("scalar"), scalar: number }),
  Schema.Struct({ type: Schema.Literal("scalar"), scalar: literal })
])

const nested = (inner: Schema.Schema<Node>) =>
  Schema.Union([
    Scalar,
    Schema.Struct({ type: Schema.Literal("array"), space, items: Schema.Array(inner).check(Schema.isMaxLength(4)) }),
    Schema.Struct({
      type: Schema.Literal("object"),
      space,
      fields: Schema.Array(Schema.Struct({ key: Text, value: inner })).check(Schema.isMaxLength(4))
    })
  ])

const write = (node: Node): string => {
  switch (node.type) {
    case "text":
      return textOf(node.text)
    case "scalar":
      return node.scalar
    case "array":
      return `[${node.space}${node.items.map(write).join(`${node.space},`)}${node.space}]`
    case "object": {
      const { fields, space } = node
      return `{${space}${
        fields.map(({ key, value }) => `${textOf(key)}${space}:${space}${write(value)}`).join(`,${space}`)
      }${space}}`
    }
  }
}

const AnyNode: Schema.Schema<Node> = nested(nested(nested(Scalar)))

/** The value, without `JSON.parse` of an object, which V8 13.6 to 14.6 may give a wrong key. */
const valueOf = (node: Node): unknown => {
  switch (node.type) {
    case "array":
      return node.items.map(valueOf)
    case "object":
      return Object.fromEntries(node.fields.map(({ key, value }) => [JSON.parse(textOf(key)), valueOf(value)]))
    default:
      return JSON.parse(write(node))
  }
}

/** UTF-8 of a valid document, and its value. */
export const documentsWithValues = Arbitrary.map(Arbitrary.schema(AnyNode), (node) => ({
  bytes: encoder.encode(write(node)),
  value: valueOf(node)
}))

export const documents = Arbitrary.map(documentsWithValues, ({ bytes }) => bytes)

const byteBelow = (maximum: number) => Schema.Int.check(Schema.isBetween({ minimum: 0, maximum }))
const interesting = oneOf("\"", "\\", "{", "}", "[", "]", ",", ":", "0", "-", ".", "e", "u", "\0", "\x1f", " ", "t")

/** Where to change a document: by how much of its length in thousandths, and how. */
const Change = Schema.Struct({
  at: byteBelow(999),
  how: Schema.Literals(["replace", "insert", "remove", "repeat", "cut"]),
  byte: Schema.Union([byteBelow(255), interesting])
})

const change = (bytes: Uint8Array, { at, byte, how }: typeof Change.Type): Uint8Array => {
  const index = Math.floor(bytes.length * at / 1000)
  const [before, after] = [bytes.subarray(0, index), bytes.subarray(index)]
  const value = typeof byte === "number" ? byte : byte.charCodeAt(0)
  switch (how) {
    case "replace":
      return Uint8Array.of(...before, value, ...after.subarray(1))
    case "insert":
      return Uint8Array.of(...before, value, ...after)
    case "remove":
      return Uint8Array.of(...before, ...after.subarray(1))
    case "repeat":
      return Uint8Array.of(...before, ...after.subarray(0, 1), ...after)
    case "cut":
      return before.slice()
  }
}

/** Documents of which some bytes were changed, so that most are not valid. */
export const brokenDocuments = Arbitrary.map(
  Arbitrary.all([
    documents,
    Arbitrary.schema(Schema.Array(Change).check(Schema.isMinLength(1), Schema.isMaxLength(3)))
  ]),
  ([bytes, changes]) => changes.reduce(change, bytes)
)

/** Lengths of the chunks into which a document is cut, repeated as often as it takes. */
export const Cuts = Schema.Array(Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 40 }))).check(
  Schema.isMinLength(1),
  Schema.isMaxLength(8)
)

/** The chunks, each in a buffer at another offset. */
export const cut = (bytes: Uint8Array, lengths: typeof Cuts.Type): ReadonlyArray<Uint8Array> => {
  const chunks: Array<Uint8Array> = []
  for (let from = 0; from < bytes.length;) {
    const part = bytes.subarray(from, from + lengths[chunks.length % lengths.length]!)
    const offset = chunks.length % 5
    const chunk = new Uint8Array(part.length + offset).subarray(offset)
    chunk.set(part)
    chunks.push(chunk)
    from += part.length
  }
  return chunks
}
