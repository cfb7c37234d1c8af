/** Follows the wanted paths of a document while `JsonScanner` reads it, and keeps the byte ranges of the values on them. */
import { Kind, textOfToken } from "./JsonBytes.ts"
import { Shape } from "./JsonShape.ts"

const none: ReadonlyArray<never> = []

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
    this.members = isEntered ? [] : none as unknown as Array<Found>
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

export class JsonPaths {
  /** Open objects and arrays that are followed. A value is on a path when as many are open in the document. -1 follows none. */
  depth: number
  root: Found | undefined = undefined
  /** The outer ones of these, and where the value in each belongs in its members. */
  readonly #open: Array<Found> = []
  readonly #slots: Array<number> = []
  #top: Found | undefined = undefined
  /** An object or array that is a leaf, until it ends. */
  #leaf: Found | undefined = undefined
  /** What is wanted of the next value. */
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

  /** The name of the next value. The bytes are the token, quotes included; none if it is longer than any wanted name. */
  key(bytes: Uint8Array, from: number, to: number, hasEscapes: boolean, start: number, end: number): void {
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
    if (from === to) return
    const index = shape.fieldOf(bytes, from, to, hasEscapes)
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

  /** A text, number, boolean or null. The bytes are its token, and none if it is long. */
  value(
    kind: Kind,
    start: number,
    end: number,
    bytes: Uint8Array,
    from: number,
    to: number,
    hasEscapes: boolean
  ): void {
    const shape = this.#begin(kind)
    if (shape === undefined) return this.#expect(this.#top)
    const found = new Found(shape, kind, start, false)
    if (shape.isCaptured && kind === Kind.string && from < to) found.text = textOfToken(bytes, from, to, hasEscapes)
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

  /** What is wanted of the next value; of a field its name will say. */
  #expect(top: Found | undefined): void {
    this.#shape = top !== undefined && top.kind === Kind.array && top.count < top.shape.maxItems
      ? top.shape.item
      : undefined
  }
}
