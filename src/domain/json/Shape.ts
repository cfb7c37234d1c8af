/**
 * Shapes: which parts of a JSON document are wanted, so that `Scanner` finds their byte ranges and passes over everything else. The shape
 * of a body follows from its schema: `shapeOf`. What was found is a tree of `Found`.
 */
import { Array as Arr, type Schema, type SchemaAST } from "effect"
import { Kind, textOfToken, unescape } from "./tables.ts"

/** Bytes of a captured text, and of a name that has escapes, quotes included. A longer name is unknown. */
const maxToken = 1024

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
    if (to - from > maxToken) return -1
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

/** The leaves of either of two shapes. A leaf that one of them passes on is raw for both. */
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
      // In an object with fields and any others, the fields are wanted.
      return index === undefined || fields.length > 0 ? object(Object.fromEntries(fields)) : record(ofAst(index.type))
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

/** The members of a value that the scanner does not enter. */
const none: Array<Found | undefined> = []

/** A wanted value. */
export class Found {
  readonly shape: Shape
  readonly kind: Kind
  /** Offsets in the document: of the first byte, and behind the last one. */
  readonly start: number
  end = 0
  /** Items or pairs as written. Kept are at most `shape.maxItems`. */
  count = 0
  /** Set of the kinds of the items or pairs. */
  kinds = 0
  /** The text, if the shape captures it. */
  text: string | undefined = undefined
  /** Fields in the order of the shape, items, or keys and values in turn. */
  readonly members: Array<Found | undefined>

  constructor(shape: Shape, kind: Kind, start: number, isEntered: boolean) {
    this.shape = shape
    this.kind = kind
    this.start = start
    this.members = isEntered ? [] : none
  }

  /** The value of a wanted field. Of a field that comes twice the last counts. */
  field(name: string): Found | undefined {
    const index = this.shape.names.indexOf(name)
    return index < 0 ? undefined : this.members[index]
  }

  /** Whether the value has more items or pairs than are kept. */
  get isTooLong(): boolean {
    return this.count > this.shape.maxItems
  }
}

const key = new Shape({})

/** Follows the wanted paths of a document, and keeps the ranges of the values on them. */
export class Paths {
  /** Open objects and arrays that are followed. A value is on a path when as many are open in the document. -1 follows none. */
  depth: number
  root: Found | undefined = undefined
  /** The outer ones of these, and where the value in each belongs in its members. */
  readonly #open: Array<Found> = []
  readonly #slots: Array<number> = []
  #top: Found | undefined = undefined
  /** An object or array that is a leaf, until it ends. */
  #leaf: Found | undefined = undefined
  /** The parts that are wanted of the next value. */
  #shape: Shape | undefined
  #slot = 0

  constructor(shape: Shape | undefined) {
    this.#shape = shape
    this.depth = shape === undefined ? -1 : 0
  }

  /** The outermost value so far: of a document that is cut off or not valid, what was found before that place. */
  get found(): Found | undefined {
    return this.root ?? this.#open[0] ?? this.#top
  }

  /** The name of the next value, a token from `start` to `end`. */
  key(bytes: Uint8Array, start: number, end: number, hasEscapes: boolean): void {
    const top = this.#top!
    const { shape } = top
    this.#shape = undefined
    if (shape.pairs !== undefined) {
      if (++top.count > shape.maxItems) return
      const found = new Found(key, Kind.string, start, false)
      found.end = end
      this.#slot = top.members.push(found)
      this.#shape = shape.pairs
      return
    }
    const index = shape.fieldOf(bytes, start, end, hasEscapes)
    if (index < 0) return
    this.#shape = shape.fields[index]
    this.#slot = index
  }

  /** An object or array begins. */
  open(kind: Kind, start: number): void {
    const shape = this.#begin(kind)
    if (shape === undefined) return
    const isEntered = kind === Kind.object ? shape.entersObject : shape.entersArray
    const found = new Found(shape, kind, start, isEntered)
    if (!isEntered) {
      this.#leaf = found
      return
    }
    if (this.#top !== undefined) {
      this.#open.push(this.#top)
      this.#slots.push(this.#slot)
    }
    this.#top = found
    this.depth++
    this.#expect(found)
  }

  /** An object or array that is followed ends. */
  close(end: number): void {
    const found = this.#top!
    this.#top = this.#open.pop()
    this.#slot = this.#slots.pop() ?? 0
    this.depth--
    this.#attach(found, end)
  }

  /** An object or array that is a leaf ends. */
  endLeaf(end: number): void {
    const leaf = this.#leaf
    this.#leaf = undefined
    if (leaf === undefined) this.#expect(this.#top)
    else this.#attach(leaf, end)
  }

  /** A text, number, boolean or null, whose token is from `start` to `end`. */
  value(kind: Kind, bytes: Uint8Array, start: number, end: number, hasEscapes: boolean): void {
    const shape = this.#begin(kind)
    if (shape === undefined) return this.#expect(this.#top)
    const found = new Found(shape, kind, start, false)
    if (shape.isCaptured && kind === Kind.string && end - start <= maxToken) {
      found.text = textOfToken(bytes, start, end, hasEscapes)
    }
    this.#attach(found, end)
  }

  /** Counts a value, and returns what is wanted of it. */
  #begin(kind: Kind): Shape | undefined {
    const top = this.#top
    if (top !== undefined) {
      top.kinds |= kind
      if (top.kind === Kind.array) this.#slot = top.count++
    }
    return this.#shape
  }

  #attach(found: Found, end: number): void {
    found.end = end
    const top = this.#top
    if (top === undefined) this.root = found
    else top.members[this.#slot] = found
    this.#expect(top)
  }

  /** The parts that are wanted of the next value; those of a field follow from its name. */
  #expect(top: Found | undefined): void {
    this.#shape = top !== undefined && top.kind === Kind.array && top.count < top.shape.maxItems
      ? top.shape.item
      : undefined
  }
}
