/**
 * Reads JSON as JavaScript values without `JSON.parse` of an object: V8 13.6 to 14.6 may give a key of one document to another one
 * (nodejs/node issue 63785; Node 26.12.1 repairs it, older ones that `engines` allows do not). Slower than `JSON.parse`, for small ranges and for what must be objects. Numbers become JavaScript's: digits beyond
 * 2^53 are not kept, and `1e400` is Infinity.
 */
import { Result, type Schema } from "effect"
import { scan } from "./Scanner.ts"
import { isSpace, type JsonProblem, nextOfNumber, textOf, textOfToken } from "./tables.ts"

/** Bytes of a text that is built character by character: decoding has a fixed cost. */
const shortText = 24
/** Digits of an integer that is surely exact. */
const shortNumber = 9

/** Adds an own property, also under the name `__proto__`. */
export const define = (object: Record<string, unknown>, key: string, value: unknown): void => {
  if (key === "__proto__") {
    Object.defineProperty(object, key, { value, writable: true, enumerable: true, configurable: true })
  } else object[key] = value
}

/** Reads one valid value. */
class Reader {
  readonly #bytes: Uint8Array
  #index: number

  constructor(bytes: Uint8Array, from: number) {
    this.#bytes = bytes
    this.#index = from
  }

  value(): Schema.Json {
    switch (this.#token()) {
      case 0x22:
        return this.#text()
      case 0x7b:
        return this.#object()
      case 0x5b:
        return this.#array()
      case 0x74:
        return this.#literal("true", true)
      case 0x66:
        return this.#literal("false", false)
      case 0x6e:
        return this.#literal("null", null)
      default:
        return this.#number()
    }
  }

  /** The next byte that is not white space. */
  #token(): number {
    const bytes = this.#bytes
    while (isSpace[bytes[this.#index]!] === 1) this.#index++
    return bytes[this.#index]!
  }

  #literal<A>(text: string, value: A): A {
    this.#index += text.length
    return value
  }

  #object(): Schema.Json {
    const object: Record<string, Schema.Json> = {}
    this.#index++
    if (this.#token() === 0x7d) this.#index++
    else {
      do {
        this.#token()
        const key = this.#text()
        this.#token()
        this.#index++
        define(object, key, this.value())
      } while (this.#goesOn())
    }
    return object
  }

  #array(): Schema.Json {
    const items: Array<Schema.Json> = []
    this.#index++
    if (this.#token() === 0x5d) this.#index++
    else {
      do items.push(this.value())
      while (this.#goesOn())
    }
    return items
  }

  /** Passes a comma or the end of the object or array. */
  #goesOn(): boolean {
    const isComma = this.#token() === 0x2c
    this.#index++
    return isComma
  }

  #text(): string {
    const bytes = this.#bytes
    const from = this.#index
    let hasEscapes = false
    let bits = 0
    let index = from + 1
    for (let byte = bytes[index]!; byte !== 0x22; byte = bytes[++index]!) {
      bits |= byte
      if (byte === 0x5c) {
        hasEscapes = true
        index++
      }
    }
    this.#index = index + 1
    if (hasEscapes || bits > 0x7f || index - from > shortText) {
      return textOfToken(bytes, from, index + 1, hasEscapes)
    }
    let text = ""
    for (let at = from + 1; at < index; at++) text += String.fromCharCode(bytes[at]!)
    return text
  }

  #number(): number {
    const bytes = this.#bytes
    const from = this.#index
    let state = 0
    let index = from
    let digits = 0
    // Behind the document there is no byte, so no next state.
    for (let next = 0; (next = nextOfNumber[state << 8 | (bytes[index] ?? 0)]!) !== 0; index++) {
      state = next
      digits = digits * 10 + bytes[index]! - 0x30
    }
    this.#index = index
    const isDigits = bytes[from]! >= 0x30 && index - from <= shortNumber && (state === 2 || state === 3)
    return isDigits ? digits : Number(textOf(bytes, from, index))
  }
}

/** Reads the value that begins at `from`, white space aside. The document must be valid: the scanner has passed it. */
export const readValid = (bytes: Uint8Array, from = 0): Schema.Json => new Reader(bytes, from).value()

/** Reads a whole document. */
export const read = (bytes: Uint8Array): Result.Result<Schema.Json, JsonProblem> => {
  const { problem } = scan(bytes)
  return problem === undefined ? Result.succeed(readValid(bytes, startOf(bytes))) : Result.fail(problem)
}

/** Behind a byte order mark, which only the beginning of a valid document can have. */
const startOf = (bytes: Uint8Array): number => bytes[0] === 0xef ? 3 : 0
