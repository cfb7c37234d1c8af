/** The inside of a JSON string, as it arrives in chunks: validates its escapes and its UTF-8. The fast part of `JsonScanner`. */
import { isEscape, isHex, isSpecial } from "./JsonBytes.ts"

// What the next byte belongs to:
const character = 0
const escape = 1
const hex = 2
const continuation = 3

const noWords = new Int32Array(0)
/** A chunk of fewer bytes is not read by words. */
const fewBytes = 256
/** After so many plain characters of a string the next ones are read by words. */
const longText = 16
const highBits = 0x80808080 | 0

export class JsonText {
  /** Whether more of the string is to come. */
  isOpen = false
  hasEscapes = false
  /** Why the string is not valid. */
  reason: string | undefined = undefined
  #state = character
  /** Digits of `\u` so far, or bytes of a character to come. */
  #progress = 0
  /** Bounds of the next byte of a character. */
  #low = 0
  #high = 0
  /** The chunk by words of four bytes, and the index of the first one. */
  #words: Int32Array = noWords
  #firstWord = 0

  /** Prepares for a chunk. */
  view(bytes: Uint8Array): void {
    if (bytes.length < fewBytes) return
    this.#firstWord = -bytes.byteOffset & 3
    const count = (bytes.length - this.#firstWord) >> 2
    this.#words = new Int32Array(bytes.buffer, bytes.byteOffset + this.#firstWord, count)
  }

  /** Forgets the chunk. */
  leave(): void {
    this.#words = noWords
  }

  /** Begins behind the opening quote. Returns what `resume` returns. */
  begin(bytes: Uint8Array, from: number): number {
    this.isOpen = true
    this.hasEscapes = false
    return this.resume(bytes, from)
  }

  /** Returns the index behind the closing quote or the chunk, or the one of the byte that is not valid. */
  resume(bytes: Uint8Array, from: number): number {
    let index = from
    while (index < bytes.length && this.isOpen) {
      index = this.#state === character ? this.#characters(bytes, index) : this.#part(index, bytes[index]!)
    }
    return index
  }

  #fail(index: number, reason: string): number {
    this.isOpen = false
    this.reason = reason
    return index
  }

  #characters(bytes: Uint8Array, from: number): number {
    const size = bytes.length
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
      if (byte === 0x22) {
        this.isOpen = false
        return index + 1
      }
      if (byte < 0x20) return this.#fail(index, "control character in a string")
      plain = 0
      const isWhole = index + 5 < size
      const next = !isWhole
        ? index
        : byte === 0x5c
        ? this.#wholeEscape(bytes, index)
        : wholeCharacter(bytes, index, byte)
      if (next === index) return byte === 0x5c ? this.#beginEscape(index) : this.#beginCharacter(index, byte)
      index = next
    }
    return index
  }

  /** Behind the plain ASCII characters from here, or a few bytes before. `from` is the index of a word. */
  #plainWords(from: number): number {
    const words = this.#words
    const last = words.length - 1
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

  /** Behind an escape whose bytes have all arrived; `index` if it is not valid. */
  #wholeEscape(bytes: Uint8Array, index: number): number {
    this.hasEscapes = true
    const byte = bytes[index + 1]!
    if (isEscape[byte] === 1) return index + 2
    const isUnicode = byte === 0x75
      && (isHex[bytes[index + 2]!]! & isHex[bytes[index + 3]!]! & isHex[bytes[index + 4]!]! & isHex[bytes[index + 5]!]!)
        === 1
    return isUnicode ? index + 6 : index
  }

  #beginEscape(index: number): number {
    this.hasEscapes = true
    this.#state = escape
    return index + 1
  }

  #beginCharacter(index: number, byte: number): number {
    if (byte < 0xc2 || byte > 0xf4) return this.#fail(index, "invalid UTF-8")
    this.#progress = byte < 0xe0 ? 1 : byte < 0xf0 ? 2 : 3
    this.#low = byte === 0xe0 ? 0xa0 : byte === 0xf0 ? 0x90 : 0x80
    this.#high = byte === 0xed ? 0x9f : byte === 0xf4 ? 0x8f : 0xbf
    this.#state = continuation
    return index + 1
  }

  /** One byte of an escape or character that was cut, or that is not valid. */
  #part(index: number, byte: number): number {
    switch (this.#state) {
      case escape:
        if (byte !== 0x75 && isEscape[byte] === 0) return this.#fail(index, "unknown escape")
        this.#state = byte === 0x75 ? hex : character
        this.#progress = 0
        break
      case hex:
        if (isHex[byte] === 0) return this.#fail(index, "unknown escape")
        if (++this.#progress === 4) this.#state = character
        break
      default:
        if (byte < this.#low || byte > this.#high) return this.#fail(index, "invalid UTF-8")
        this.#low = 0x80
        this.#high = 0xbf
        if (--this.#progress === 0) this.#state = character
    }
    return index + 1
  }
}

/** Behind a character of several bytes whose bytes have all arrived; `index` if it is not valid. */
const wholeCharacter = (bytes: Uint8Array, index: number, byte: number): number => {
  const second = bytes[index + 1]! ^ 0x80
  if (second > 0x3f) return index
  if (byte < 0xe0) return byte < 0xc2 ? index : index + 2
  const third = bytes[index + 2]! ^ 0x80
  if (third > 0x3f) return index
  if (byte < 0xf0) {
    const isValid = byte === 0xe0 ? second >= 0x20 : byte !== 0xed || second < 0x20
    return isValid ? index + 3 : index
  }
  const fourth = bytes[index + 3]! ^ 0x80
  const isValid = fourth <= 0x3f && (byte === 0xf0 ? second >= 0x10 : byte < 0xf4 || (byte === 0xf4 && second < 0x10))
  return isValid ? index + 4 : index
}
