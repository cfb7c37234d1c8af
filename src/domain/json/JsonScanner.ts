/**
 * Validates JSON text (RFC 8259) as its UTF-8 arrives in chunks, cut anywhere, and reports the byte ranges of the values on the paths of a
 * shape. Keeps no bytes, and takes constant memory besides the ranges. A byte order mark at the beginning is passed over.
 */
import { isSpace, type JsonProblem, Kind, literalOf, maxToken, mayEnd, nextOfNumber } from "./JsonBytes.ts"
import { type Found, JsonPaths } from "./JsonPaths.ts"
import type { Shape } from "./JsonShape.ts"
import { JsonText } from "./JsonText.ts"

const defaultDepth = 1000

// What the next byte may be. Between tokens:
const start = 0
const value = 1
const valueOrEnd = 2
const name = 3
const nameOrEnd = 4
const colon = 5
const commaOrEnd = 6
const done = 7
// Inside a token:
const string = 8
const number = 9
const literal = 10
const mark = 11
const failed = 12

const byteOrderMark = [0xef, 0xbb, 0xbf]
const nothing = new Uint8Array(0)

/** An index behind every chunk: a small integer, so that indexes stay integers for the compiler. */
const beyond = 0x3fffffff

export class JsonScanner {
  /** Why the text is not valid JSON. Bytes after it are ignored. */
  problem: JsonProblem | undefined = undefined
  readonly #paths: JsonPaths
  readonly #maxDepth: number
  /** For each open object or array, whether it is an object. */
  readonly #objects: Array<boolean> = []
  #isObject = false
  #depth = 0
  #state = start
  /** Bytes of all earlier chunks. */
  #offset = 0
  /** Where the last token began. */
  #start = 0
  #isName = false
  readonly #text = new JsonText()
  /** Of a number its state; of a literal or a byte order mark the bytes so far. */
  #progress = 0
  #literal = ""
  #carried = nothing
  /** Bytes of a cut token; more than `maxToken` if it is too long. */
  #carriedBytes = 0

  /** Without a shape it only validates. `maxDepth` is the maximum of open objects and arrays. */
  constructor(shape?: Shape, maxDepth = defaultDepth) {
    this.#paths = new JsonPaths(shape)
    this.#maxDepth = maxDepth
  }

  /** The most levels that were open. */
  get deepest(): number {
    return this.#objects.length
  }

  /** What was found. Meaningful after `end` returned no problem. */
  get root(): Found | undefined {
    return this.#paths.root
  }

  /** What was found so far. Its values that have begun and not ended are missing. */
  get found(): Found | undefined {
    return this.#paths.found
  }

  /** Takes the next bytes, which may change afterwards. */
  push(bytes: Uint8Array): JsonProblem | undefined {
    const size = bytes.length
    let index = 0
    this.#text.view(bytes)
    while (index < size) {
      const state = this.#state
      if (state < string) index = this.#between(bytes, index)
      else if (state === string) index = this.#string(bytes, this.#text.resume(bytes, index))
      else if (state === number) index = this.#number(bytes, index)
      else if (state === literal) index = this.#word(bytes, index)
      else if (state === mark) index = this.#mark(bytes[index]!, index)
      else break
    }
    if (this.#state === string && this.#depth === this.#paths.depth) this.#carry(bytes, size)
    this.#text.leave()
    this.#offset += size
    return this.problem
  }

  /** The text has ended. */
  end(): JsonProblem | undefined {
    if (this.#state === number && mayEnd[this.#progress] === 1) this.#endScalar(Kind.number, this.#offset)
    if (this.#state !== done && this.#state !== failed) this.#fail(0, this.#unfinished())
    return this.problem
  }

  #unfinished(): string {
    if (this.#state === start) return "no value"
    if (this.#state === string) return "unfinished string"
    return this.#state === number ? "unfinished number" : "unexpected end"
  }

  /** `index` is one of the current chunk. Returns an index behind every chunk. */
  #fail(index: number, reason: string): number {
    this.problem ??= { offset: this.#offset + index, reason }
    this.#state = failed
    return beyond
  }

  #unexpected(index: number): number {
    return this.#fail(index, "unexpected character")
  }

  /** White space, punctuation, and the first bytes of values. */
  #between(bytes: Uint8Array, from: number): number {
    const size = bytes.length
    let index = from
    while (index < size) {
      const byte = bytes[index]!
      if (byte <= 0x20) {
        if (isSpace[byte] === 0) return this.#unexpected(index)
        index++
        continue
      }
      switch (this.#state) {
        case colon:
          if (byte !== 0x3a) return this.#unexpected(index)
          this.#state = value
          index++
          break
        case commaOrEnd:
          if (byte === 0x2c) this.#state = this.#isObject ? name : value
          else if (byte === (this.#isObject ? 0x7d : 0x5d)) this.#close(index)
          else return this.#unexpected(index)
          index++
          break
        case nameOrEnd:
        case name:
          if (byte === 0x22) index = this.#beginString(bytes, index, true)
          else if (byte === 0x7d && this.#state === nameOrEnd) this.#close(index++)
          else return this.#unexpected(index)
          break
        default:
          index = this.#value(bytes, index, byte)
      }
      if (this.#state >= string) return index
    }
    return index
  }

  #value(bytes: Uint8Array, index: number, byte: number): number {
    if (byte === 0x22 && this.#state !== done) return this.#beginString(bytes, index, false)
    if (this.#state === done) return this.#fail(index, "unexpected character after the end")
    if (byte === 0x7b || byte === 0x5b) return this.#open(byte === 0x7b, index)
    if (byte === 0x5d && this.#state === valueOrEnd) {
      this.#close(index)
      return index + 1
    }
    this.#start = this.#offset + index
    const first = nextOfNumber[byte]!
    if (first !== 0) {
      this.#progress = first
      this.#state = number
      return this.#number(bytes, index + 1)
    }
    this.#progress = 1
    if (byte === 0xef && this.#start === 0) {
      this.#state = mark
      return index + 1
    }
    const word = literalOf(byte)
    if (word === undefined) return this.#unexpected(index)
    this.#literal = word
    this.#state = literal
    return this.#word(bytes, index + 1)
  }

  /** Inside a literal. */
  #word(bytes: Uint8Array, from: number): number {
    const word = this.#literal
    const size = Math.min(bytes.length, from + word.length - this.#progress)
    const shift = this.#progress - from
    for (let index = from; index < size; index++) {
      if (bytes[index] !== word.charCodeAt(index + shift)) return this.#unexpected(index)
    }
    this.#progress = size + shift
    if (this.#progress === word.length) {
      this.#endScalar(word === "null" ? Kind.null : Kind.boolean, this.#offset + size)
    }
    return size
  }

  #open(isObject: boolean, index: number): number {
    const depth = this.#depth
    if (depth === this.#maxDepth) return this.#fail(index, `more than ${depth} levels`)
    if (depth === this.#paths.depth) this.#paths.open(isObject ? Kind.object : Kind.array, this.#offset + index)
    this.#objects[depth] = isObject
    this.#depth = depth + 1
    this.#isObject = isObject
    this.#state = isObject ? nameOrEnd : valueOrEnd
    return index + 1
  }

  #close(index: number): void {
    const depth = --this.#depth
    this.#isObject = depth > 0 && this.#objects[depth - 1]!
    this.#state = depth === 0 ? done : commaOrEnd
    const paths = this.#paths
    if (depth < paths.depth) paths.close(this.#offset + index + 1)
    else if (depth === paths.depth) paths.endLeaf(this.#offset + index + 1)
  }

  #beginString(bytes: Uint8Array, index: number, isName: boolean): number {
    this.#start = this.#offset + index
    this.#isName = isName
    this.#carriedBytes = 0
    this.#state = string
    return this.#string(bytes, this.#text.begin(bytes, index + 1))
  }

  /** Behind what has arrived of a string. */
  #string(bytes: Uint8Array, end: number): number {
    const text = this.#text
    if (text.isOpen) return end
    return text.reason === undefined ? this.#endString(bytes, end) : this.#fail(end, text.reason)
  }

  #endString(bytes: Uint8Array, end: number): number {
    const isWanted = this.#depth === this.#paths.depth
    if (this.#isName) {
      this.#state = colon
      if (isWanted) this.#report(bytes, end, true)
      if (end < bytes.length && bytes[end] === 0x3a) {
        this.#state = value
        return end + 1
      }
      return end
    }
    this.#state = this.#depth === 0 ? done : commaOrEnd
    if (isWanted) this.#report(bytes, end, false)
    return end
  }

  /** Reports a name or text that is on a path. */
  #report(chunk: Uint8Array, end: number, isName: boolean): void {
    let bytes = chunk
    let from = this.#start - this.#offset
    let to = end
    if (from < 0) {
      this.#carry(chunk, end)
      bytes = this.#carried
      from = 0
      to = this.#carriedBytes > maxToken ? 0 : this.#carriedBytes
    } else if (to - from > maxToken) to = from
    const start = this.#start
    const after = this.#offset + end
    const { hasEscapes } = this.#text
    if (isName) this.#paths.key(bytes, from, to, hasEscapes, start, after)
    else this.#paths.value(Kind.string, start, after, bytes, from, to, hasEscapes)
  }

  /** Copies the part of a cut token that the chunk has. */
  #carry(chunk: Uint8Array, end: number): void {
    const from = Math.max(0, this.#start - this.#offset)
    const before = this.#carriedBytes
    if (before > maxToken) return
    this.#carriedBytes += end - from
    if (this.#carriedBytes > maxToken) return
    if (this.#carried.length === 0) this.#carried = new Uint8Array(maxToken)
    this.#carried.set(chunk.subarray(from, end), before)
  }

  #number(bytes: Uint8Array, from: number): number {
    const size = bytes.length
    let index = from
    let state = this.#progress
    while (index < size) {
      const next = nextOfNumber[state << 8 | bytes[index]!]!
      if (next === 0) {
        if (mayEnd[state] === 0) return this.#fail(index, "unfinished number")
        this.#endScalar(Kind.number, this.#offset + index)
        return index
      }
      state = next
      index++
    }
    this.#progress = state
    return index
  }

  #endScalar(kind: Kind, end: number): void {
    this.#state = this.#depth === 0 ? done : commaOrEnd
    if (this.#depth === this.#paths.depth) this.#paths.value(kind, this.#start, end, nothing, 0, 0, false)
  }

  /** One byte of a byte order mark. */
  #mark(byte: number, index: number): number {
    if (byte !== byteOrderMark[this.#progress]) return this.#unexpected(index)
    if (++this.#progress === byteOrderMark.length) this.#state = value
    return index + 1
  }
}
