/**
 * Validates JSON text (RFC 8259) while its UTF-8 arrives, and finds the byte ranges of the values on the paths of a shape. Whoever scans
 * keeps the bytes: the scanner remembers its place, and stops in front of a literal, escape or character that is not whole yet. A byte order
 * mark at the beginning is passed over.
 */
import { Effect } from "effect"
import { type Found, Paths, type Shape } from "./Shape.ts"
import {
  isEscape,
  isHex,
  isSpace,
  isSpecial,
  type JsonProblem,
  Kind,
  literalOf,
  mayEnd,
  nextOfNumber
} from "./tables.ts"

const defaultDepth = 1000

// States: each names the bytes that may follow. Between tokens:
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
const failed = 10

const byteOrderMark = [0xef, 0xbb, 0xbf]

/** An index behind every document: a small integer, so that indexes stay integers for the compiler. */
const beyond = 0x3fffffff

const nothing = new Uint8Array(0)
const noWords = new Int32Array(0)
/** A shorter document is not read by words. */
const fewBytes = 256
/** After so many plain characters of a string the next ones are read by words. */
const longText = 16
const highBits = 0x80808080 | 0

export class Scanner {
  /** Why the text is not valid JSON. Bytes after it are ignored. */
  problem: JsonProblem | undefined = undefined
  /** Bytes that have arrived. */
  size = 0
  readonly #paths: Paths
  readonly #maxDepth: number
  /** For each open object or array, whether it is an object. */
  readonly #objects: Array<boolean> = []
  #isObject = false
  #depth = 0
  #state = start
  /** The index at which scanning continues: `size`, or the begin of something that is not whole. */
  #index = 0
  /** The index of the last token's first byte. */
  #start = 0
  #isName = false
  #hasEscapes = false
  /** The state of a number. */
  #progress = 0
  /** The document by words of four bytes, and the index of the first one. */
  #viewed: Uint8Array | undefined = undefined
  #words: Int32Array = noWords
  #firstWord = 0

  /** Without a shape it only validates. `maxDepth` is the maximum of open objects and arrays. */
  constructor(shape?: Shape, maxDepth = defaultDepth) {
    this.#paths = new Paths(shape)
    this.#maxDepth = maxDepth
  }

  /** The most levels that were open. */
  get deepest(): number {
    return this.#objects.length
  }

  /** The parts that were found. Meaningful after `end` returned no problem. */
  get root(): Found | undefined {
    return this.#paths.root
  }

  /** The parts that were found so far. Values that have begun and not ended are missing. */
  get found(): Found | undefined {
    return this.#paths.found
  }

  /** Goes on until `size` bytes of the document, which `bytes` has from its beginning. Each call may bring a larger buffer. */
  advance(bytes: Uint8Array, size = bytes.length): JsonProblem | undefined {
    this.#view(bytes)
    let index = this.#index
    this.size = size
    this.#index = size
    while (index < size) {
      const state = this.#state
      if (state < string) index = this.#between(bytes, index)
      else if (state === string) index = this.#string(bytes, index)
      else if (state === number) index = this.#number(bytes, index)
      else break
    }
    return this.problem
  }

  /** The text has ended. */
  end(): JsonProblem | undefined {
    if (this.#state === number && mayEnd[this.#progress] === 1) this.#endScalar(Kind.number, this.size)
    if (this.#state !== done && this.#state !== failed) this.#fail(this.size, this.#unfinished())
    return this.problem
  }

  #unfinished(): string {
    if (this.#state === start && this.#index === this.size) return "no value"
    if (this.#state === string) return "unfinished string"
    return this.#state === number ? "unfinished number" : "unexpected end"
  }

  #view(bytes: Uint8Array): void {
    if (bytes === this.#viewed || bytes.length < fewBytes) return
    this.#viewed = bytes
    this.#firstWord = -bytes.byteOffset & 3
    const count = (bytes.length - this.#firstWord) >> 2
    this.#words = new Int32Array(bytes.buffer, bytes.byteOffset + this.#firstWord, count)
  }

  #fail(index: number, reason: string): number {
    this.problem ??= { offset: index, reason }
    this.#state = failed
    return beyond
  }

  #unexpected(index: number): number {
    return this.#fail(index, "unexpected character")
  }

  /** Waits for the rest of what begins at `index`. */
  #pause(index: number): number {
    this.#index = index
    return beyond
  }

  /** White space, punctuation, and the first bytes of values. */
  #between(bytes: Uint8Array, from: number): number {
    const { size } = this
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
    this.#start = index
    const first = nextOfNumber[byte]!
    if (first !== 0) {
      this.#progress = first
      this.#state = number
      return this.#number(bytes, index + 1)
    }
    if (byte === 0xef && index === 0) return this.#mark(bytes)
    const word = literalOf(byte)
    return word === undefined ? this.#unexpected(index) : this.#word(bytes, word)
  }

  #word(bytes: Uint8Array, word: string): number {
    const from = this.#start
    const end = from + word.length
    const arrived = Math.min(this.size, end)
    for (let index = from + 1; index < arrived; index++) {
      if (bytes[index] !== word.charCodeAt(index - from)) return this.#unexpected(index)
    }
    if (arrived < end) return this.#pause(from)
    this.#endScalar(word === "null" ? Kind.null : Kind.boolean, end)
    return end
  }

  #mark(bytes: Uint8Array): number {
    for (let index = 1; index < byteOrderMark.length; index++) {
      if (index === this.size) return this.#pause(0)
      if (bytes[index] !== byteOrderMark[index]) return this.#unexpected(index)
    }
    this.#state = value
    return byteOrderMark.length
  }

  #open(isObject: boolean, index: number): number {
    const depth = this.#depth
    if (depth === this.#maxDepth) return this.#fail(index, `more than ${depth} levels`)
    if (depth === this.#paths.depth) this.#paths.open(isObject ? Kind.object : Kind.array, index)
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
    if (depth < paths.depth) paths.close(index + 1)
    else if (depth === paths.depth) paths.endLeaf(index + 1)
  }

  #beginString(bytes: Uint8Array, index: number, isName: boolean): number {
    this.#start = index
    this.#isName = isName
    this.#hasEscapes = false
    this.#state = string
    return this.#string(bytes, index + 1)
  }

  /** The inside of a string, from the beginning of a character. */
  #string(bytes: Uint8Array, from: number): number {
    const { size } = this
    let index = from
    let plain = 0
    while (index < size) {
      const byte = bytes[index]!
      if (isSpecial[byte] === 0) {
        index++
        if (++plain >= longText && ((index - this.#firstWord) & 3) === 0) {
          index = this.#plainWords(index)
          plain = 0
        }
        continue
      }
      if (byte === 0x22) return this.#endString(bytes, index + 1)
      if (byte < 0x20) return this.#fail(index, "control character in a string")
      plain = 0
      index = byte === 0x5c ? this.#escape(bytes, index) : this.#character(bytes, index, byte)
    }
    return index
  }

  /** Behind the plain ASCII characters from here, or a few bytes before. `from` is the index of a word. */
  #plainWords(from: number): number {
    const words = this.#words
    const last = Math.min(words.length, (this.size - this.#firstWord) >> 2) - 1
    let at = (from - this.#firstWord) >> 2
    while (at < last) {
      const one = words[at]!
      const other = words[at + 1]!
      // The highest bit of some byte is set if one of the bytes is below 0x20, `"`, `\`, or above 0x7f.
      const isPlain = ((one | other | (one - 0x20202020) | (other - 0x20202020)
        | ((one ^ 0x22222222) - 0x01010101) | ((other ^ 0x22222222) - 0x01010101)
        | ((one ^ 0x5c5c5c5c) - 0x01010101) | ((other ^ 0x5c5c5c5c) - 0x01010101)) & highBits) === 0
      if (!isPlain) break
      at += 2
    }
    return this.#firstWord + (at << 2)
  }

  #escape(bytes: Uint8Array, index: number): number {
    this.#hasEscapes = true
    const { size } = this
    if (index + 1 === size) return this.#pause(index)
    const byte = bytes[index + 1]!
    if (isEscape[byte] === 1) return index + 2
    if (byte !== 0x75) return this.#fail(index + 1, "unknown escape")
    const end = index + 6
    const isWhole = end <= size
      && (isHex[bytes[index + 2]!]! & isHex[bytes[index + 3]!]! & isHex[bytes[index + 4]!]! & isHex[bytes[index + 5]!]!)
        === 1
    if (isWhole) return end
    for (let at = index + 2; at < end; at++) {
      if (at === size) return this.#pause(index)
      if (isHex[bytes[at]!] === 0) return this.#fail(at, "unknown escape")
    }
    return end
  }

  /** A character of several bytes. */
  #character(bytes: Uint8Array, index: number, byte: number): number {
    // Most have three bytes, of which the first one does not restrict the second.
    const isUsual = byte > 0xe0 && byte < 0xf0 && byte !== 0xed && index + 2 < this.size
      && ((bytes[index + 1]! ^ 0x80) | (bytes[index + 2]! ^ 0x80)) < 0x40
    if (isUsual) return index + 3
    if (byte < 0xc2 || byte > 0xf4) return this.#fail(index, "invalid UTF-8")
    const end = index + (byte < 0xe0 ? 2 : byte < 0xf0 ? 3 : 4)
    // Bounds of the next byte.
    let low = byte === 0xe0 ? 0xa0 : byte === 0xf0 ? 0x90 : 0x80
    let high = byte === 0xed ? 0x9f : byte === 0xf4 ? 0x8f : 0xbf
    for (let at = index + 1; at < end; at++) {
      if (at === this.size) return this.#pause(index)
      const next = bytes[at]!
      if (next < low || next > high) return this.#fail(at, "invalid UTF-8")
      low = 0x80
      high = 0xbf
    }
    return end
  }

  #endString(bytes: Uint8Array, end: number): number {
    const isWanted = this.#depth === this.#paths.depth
    if (this.#isName) {
      this.#state = colon
      if (isWanted) this.#paths.key(bytes, this.#start, end, this.#hasEscapes)
      if (end < this.size && bytes[end] === 0x3a) {
        this.#state = value
        return end + 1
      }
      return end
    }
    this.#state = this.#depth === 0 ? done : commaOrEnd
    if (isWanted) this.#paths.value(Kind.string, bytes, this.#start, end, this.#hasEscapes)
    return end
  }

  #number(bytes: Uint8Array, from: number): number {
    const { size } = this
    let index = from
    let state = this.#progress
    while (index < size) {
      const next = nextOfNumber[state << 8 | bytes[index]!]!
      if (next === 0) {
        if (mayEnd[state] === 0) return this.#fail(index, "unfinished number")
        this.#endScalar(Kind.number, index)
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
    if (this.#depth === this.#paths.depth) this.#paths.value(kind, nothing, this.#start, end, false)
  }
}

/** Scans a whole document in one piece. The result has its problem, or its root. */
export const scan = (bytes: Uint8Array, shape?: Shape, maxDepth?: number): Scanner => {
  const scanner = new Scanner(shape, maxDepth)
  scanner.advance(bytes)
  scanner.end()
  return scanner
}

/** Bytes that are scanned without a pause: a few milliseconds. */
const pieceBytes = 64 * 1024

/** Like `advance`, with pauses if the way is long. */
export const advanceWithPauses = (
  scanner: Scanner,
  bytes: Uint8Array,
  size = bytes.length
): Effect.Effect<JsonProblem | undefined> =>
  Effect.suspend(() => {
    const problem = scanner.advance(bytes, Math.min(size, scanner.size + pieceBytes))
    return problem !== undefined || scanner.size === size
      ? Effect.succeed(problem)
      : Effect.andThen(Effect.yieldNow, advanceWithPauses(scanner, bytes, size))
  })

/** Like `scan`, with pauses if the document is long. */
export const scanWithPauses = (bytes: Uint8Array, shape?: Shape, maxDepth?: number): Effect.Effect<Scanner> =>
  Effect.suspend(() => {
    const scanner = new Scanner(shape, maxDepth)
    return Effect.map(advanceWithPauses(scanner, bytes), () => {
      scanner.end()
      return scanner
    })
  })
