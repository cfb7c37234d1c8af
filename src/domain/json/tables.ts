/** Bytes of JSON text (RFC 8259) as tables, for loops over UTF-8. */

/** The kinds of JSON values. Each has its own bit, so that a set of kinds is one number. */
export const Kind = { object: 1, array: 2, string: 4, number: 8, boolean: 16, null: 32 } as const
export type Kind = typeof Kind[keyof typeof Kind]

const bytesOf = (characters: string): ReadonlyArray<number> =>
  Array.from(characters, (character) => character.charCodeAt(0))

const tableOf = (bytes: ReadonlyArray<number>): Uint8Array => {
  const table = new Uint8Array(256)
  for (const byte of bytes) table[byte] = 1
  return table
}

const digits = bytesOf("0123456789")
const controls = Array.from({ length: 0x20 }, (_, byte) => byte)
const nonAscii = Array.from({ length: 0x80 }, (_, byte) => 0x80 + byte)

export const isSpace: Uint8Array = tableOf(bytesOf(" \n\r\t"))

/** Inside a string: 1 for every byte that is not a plain ASCII character. */
export const isSpecial: Uint8Array = tableOf([...controls, ...nonAscii, 0x22, 0x5c])

/** After a backslash: 1 for the bytes that complete an escape. */
export const isEscape: Uint8Array = tableOf(bytesOf(`"\\/bfnrt`))

export const isHex: Uint8Array = tableOf([...digits, ...bytesOf("abcdefABCDEF")])

/** The states of a number: what its last byte was. 0 is the state in front of it, and the end of it. */
const minus = 1
const zero = 2
const integer = 3
const point = 4
const fraction = 5
const exponent = 6
const sign = 7
const power = 8

const numberTable = () => {
  const table = new Uint8Array(9 * 256)
  const add = (from: number, characters: string, to: number) => {
    for (const byte of bytesOf(characters)) table[from << 8 | byte] = to
  }
  add(0, "-", minus)
  for (const from of [0, minus]) {
    add(from, "0", zero)
    add(from, "123456789", integer)
  }
  add(integer, "0123456789", integer)
  for (const from of [zero, integer]) add(from, ".", point)
  for (const from of [point, fraction]) add(from, "0123456789", fraction)
  for (const from of [zero, integer, fraction]) add(from, "eE", exponent)
  add(exponent, "+-", sign)
  for (const from of [exponent, sign, power]) add(from, "0123456789", power)
  return table
}

/** The next state of a number, by `state << 8 | byte`. 0 if the byte is no part of it. */
export const nextOfNumber: Uint8Array = numberTable()

/** 1 for the states in which a number may end. */
export const mayEnd: Uint8Array = tableOf([zero, integer, fraction, power])

/** The literal that begins with a byte. */
export const literalOf = (byte: number): string | undefined =>
  byte === 0x74 ? "true" : byte === 0x66 ? "false" : byte === 0x6e ? "null" : undefined

/** Why a text is not valid JSON. */
export interface JsonProblem {
  /** Bytes in front of the place, from the beginning of the text. */
  readonly offset: number
  /** In words that fit behind `not valid JSON: `. */
  readonly reason: string
}

/** For a client, as in `unfinished string at byte 17`. */
export const describe = ({ offset, reason }: JsonProblem): string => `${reason} at byte ${offset}`

const decoder = new TextDecoder("utf-8", { ignoreBOM: true })

/** The text of valid UTF-8. */
export const textOf = (bytes: Uint8Array, from: number, to: number): string => decoder.decode(bytes.subarray(from, to))

/** The character of a letter behind a backslash. */
const escaped = new Uint8Array(256)
for (const byte of bytesOf(`"\\/bfnrt`)) escaped[byte] = JSON.parse(`"\\${String.fromCharCode(byte)}"`).charCodeAt(0)

const valueOfHex = (digit: number): number => (digit & 15) + (digit > 0x39 ? 9 : 0)

/** Decodes the escapes of a valid string, without its quotes. Returns the bytes written, or -1 if an escape is no ASCII character. */
export const unescape = (bytes: Uint8Array, from: number, to: number, into: Uint8Array): number => {
  let size = 0
  for (let index = from; index < to; index++) {
    let byte = bytes[index]!
    if (byte === 0x5c) {
      byte = escaped[bytes[++index]!]!
      if (byte === 0) {
        // Only the last two digits of `\u` may differ from 0 in ASCII.
        if (bytes[index + 1] !== 0x30 || bytes[index + 2] !== 0x30) return -1
        byte = valueOfHex(bytes[index + 3]!) << 4 | valueOfHex(bytes[index + 4]!)
        if (byte > 0x7f) return -1
        index += 4
      }
    }
    into[size++] = byte
  }
  return size
}

/** The text of a string's token, quotes included. */
export const textOfToken = (bytes: Uint8Array, from: number, to: number, hasEscapes: boolean): string =>
  hasEscapes ? JSON.parse(textOf(bytes, from, to)) : textOf(bytes, from + 1, to - 1)
