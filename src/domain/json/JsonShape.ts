/**
 * Shapes: which parts of a JSON document are wanted, so that `JsonScanner` reports their byte ranges and passes over everything else. The
 * shape of a body follows from its schema: `shapeOf`.
 */
import { Array as Arr, type Schema, type SchemaAST } from "effect"
import { maxToken, textOfToken, unescape } from "./JsonBytes.ts"

/** Items of an array, unless its shape says otherwise. */
const defaultItems = 10_000
/** Pairs of an object with any keys, repeated ones included. */
const defaultPairs = 1_000
/** Items of an array that are only counted: more than fit in any document. */
const unbounded = 0x3fffffff

interface Parts {
  /** A leaf whose bytes are passed on unread. */
  readonly isRaw?: boolean
  /** A leaf whose text is kept by the scanner: up to 1,022 bytes of a string. */
  readonly isCaptured?: boolean
  /** A leaf whose direct items are counted if it is an array. */
  readonly isCounted?: boolean
  /** Wanted fields of an object. */
  readonly fields?: Readonly<Record<string, Shape>>
  /** The values of an object with any keys. */
  readonly pairs?: Shape | undefined
  /** The items of an array. */
  readonly item?: Shape | undefined
  /** Items or pairs that are reported, as written. Later ones are only counted. */
  readonly maxItems?: number
}

const encoder = new TextEncoder()
const unescaped = new Uint8Array(maxToken)

/** A part of a document that is wanted. A value of another kind than the shape has is a leaf. */
export class Shape {
  readonly isRaw: boolean
  readonly isCaptured: boolean
  readonly names: ReadonlyArray<string>
  readonly fields: ReadonlyArray<Shape>
  readonly pairs: Shape | undefined
  readonly item: Shape | undefined
  readonly maxItems: number
  /** Whether the scanner looks into an object, and into an array. */
  readonly entersObject: boolean
  readonly entersArray: boolean
  readonly #isAscii: boolean
  readonly #bytes: ReadonlyArray<Uint8Array>
  /** Indexes of the fields by the length of their names in bytes. */
  readonly #byLength: ReadonlyArray<ReadonlyArray<number>>

  constructor(
    { fields = {}, isCaptured = false, isCounted = false, isRaw = false, item, maxItems = defaultItems, pairs }: Parts
  ) {
    this.isRaw = isRaw
    this.isCaptured = isCaptured
    this.names = Object.keys(fields)
    this.fields = Object.values(fields)
    this.pairs = pairs
    this.item = item
    this.maxItems = maxItems
    this.entersObject = this.fields.length > 0 || pairs !== undefined
    this.entersArray = item !== undefined || isCounted
    this.#bytes = this.names.map((name) => encoder.encode(name))
    this.#isAscii = this.names.every((name, index) => name.length === this.#bytes[index]?.length)
    const longest = Math.max(-1, ...this.#bytes.map(({ length }) => length))
    this.#byLength = Array.from(
      { length: longest + 1 },
      (_, length) => this.#bytes.flatMap((bytes, index) => bytes.length === length ? [index] : [])
    )
  }

  /** Index of the field that has this name; -1 if it is not wanted. The bytes are the token, quotes included. */
  fieldOf(bytes: Uint8Array, from: number, to: number, hasEscapes: boolean): number {
    if (!hasEscapes) return this.#find(bytes, from + 1, to - 1)
    const size = unescape(bytes, from + 1, to - 1, unescaped)
    if (size >= 0) return this.#find(unescaped, 0, size)
    return this.#isAscii ? -1 : this.names.indexOf(textOfToken(bytes, from, to, true))
  }

  #find(bytes: Uint8Array, from: number, to: number): number {
    const candidates = this.#byLength[to - from]
    if (candidates === undefined) return -1
    for (let at = 0; at < candidates.length; at++) {
      const index = candidates[at]!
      const name = this.#bytes[index]!
      let position = 0
      while (position < name.length && name[position] === bytes[from + position]) position++
      if (position === name.length) return index
    }
    return -1
  }
}

export const raw = new Shape({ isRaw: true })
/** Raw, with the number and the kinds of its direct items if it is an array. */
export const counted = new Shape({ isRaw: true, isCounted: true, maxItems: unbounded })
/** A text, number, boolean or null that is decoded later, from its range. */
export const small = new Shape({})
/** The same, except that a short text is readable without the bytes of the document. */
export const captured = new Shape({ isCaptured: true })
export const object = (fields: Readonly<Record<string, Shape>>) => new Shape({ fields })
export const array = (item: Shape, maxItems = defaultItems) => new Shape({ item, maxItems })
/** An object with any keys. */
export const record = (value: Shape, maxItems = defaultPairs) => new Shape({ pairs: value, maxItems })

const isLeaf = (shape: Shape) => !shape.entersObject && !shape.entersArray

const either = (one: Shape | undefined, other: Shape | undefined) =>
  one === undefined || other === undefined ? one ?? other : merge(one, other)

/** What either of two shapes wants. A leaf that one of them passes on is raw for both. */
export const merge = (one: Shape, other: Shape): Shape => {
  if (one === other) return one
  if (isLeaf(one) && isLeaf(other)) return one.isRaw ? one : other
  const fields: Record<string, Shape> = Object.fromEntries(one.names.map((name, index) => [name, one.fields[index]!]))
  other.names.forEach((name, index) => {
    fields[name] = either(fields[name], other.fields[index])!
  })
  const item = either(one.item, other.item)
  return new Shape({
    isRaw: one.isRaw || other.isRaw,
    isCaptured: one.isCaptured || other.isCaptured,
    isCounted: item === undefined && (one.entersArray || other.entersArray),
    fields,
    pairs: either(one.pairs, other.pairs),
    item,
    maxItems: Math.max(one.maxItems, other.maxItems)
  })
}

/** The maximum of `isMaxLength`, if the array has that check. */
const maxLengthOf = ({ checks }: SchemaAST.Arrays): number | undefined => {
  for (const check of checks ?? []) {
    const representation = check.annotations?.["representation"] as
      | { readonly payload?: { readonly maxLength?: number } }
      | undefined
    if (representation?.payload?.maxLength !== undefined) return representation.payload.maxLength
  }
  return undefined
}

const ofAst = (ast: SchemaAST.AST): Shape => {
  if (ast.encoding !== undefined) return ofAst(Arr.lastNonEmpty(ast.encoding).to)
  switch (ast._tag) {
    case "Declaration":
      return ast.annotations?.["countsItems"] === true ? counted : raw
    case "Objects": {
      const [index] = ast.indexSignatures
      const fields = ast.propertySignatures.map(({ name, type }) => [String(name), ofAst(type)] as const)
      return index === undefined ? object(Object.fromEntries(fields)) : record(ofAst(index.type))
    }
    case "Arrays": {
      const items = [...ast.elements, ...ast.rest].map(ofAst)
      return array(items.reduce(merge, items[0] ?? raw), maxLengthOf(ast))
    }
    case "Union": {
      const types = ast.types.filter(({ _tag }) => _tag !== "Null" && _tag !== "Undefined").map(ofAst)
      return types.reduce(merge, types[0] ?? small)
    }
    case "Suspend":
      return raw
    default:
      return small
  }
}

/**
 * The shape of what a schema decodes. A declaration is raw, like `RawJson`; with the annotation `countsItems`, its items are counted. The maximum
 * items of an array are those of its `isMaxLength`.
 */
export const shapeOf = (schema: Schema.Top): Shape => ofAst(schema.ast)
