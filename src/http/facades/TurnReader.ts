/** Reads a turn of the usual shape. The service stores turns unread, so whatever has another shape is skipped. */
import * as RawJson from "../../domain/json/RawJson.ts"
import { readValid } from "../../domain/json/Reader.ts"
import { array, captured, type Found, merge, object, raw, small } from "../../domain/json/Shape.ts"
import { Kind, textOf } from "../../domain/json/tables.ts"
import * as TurnParts from "../../domain/TurnParts.ts"
import * as Usage from "../../domain/Usage.ts"

export interface ReadTurn {
  /** The text items, separated by blank lines, as a JSON text; undefined if it is empty. */
  readonly text: RawJson.RawJson | undefined
  /** Files and images, by their paths below the storage's base URL. */
  readonly files: ReadonlyArray<{ readonly name: string; readonly path: string }>
  /** Cumulative for the task. */
  readonly usage: Usage.Tokens | null
}

export const none: ReadTurn = { text: undefined, files: [], usage: null }

export const shape = merge(
  object({
    output: array(object({
      type: captured,
      text: raw,
      file: object({ name: small, provider_data: object({ path: small }) })
    }))
  }),
  Usage.shape
)

/** Bytes of a name or path that is read. */
const maxText = 16 * 1024

const textIn = (found: Found | undefined, bytes: Uint8Array): string | undefined =>
  found?.kind === Kind.string && found.end - found.start <= maxText ? String(readValid(bytes, found.start)) : undefined

const filesOf = (turn: Found, bytes: Uint8Array): ReadTurn["files"] =>
  TurnParts.membersOf(turn.field("output")).flatMap((item) => {
    const file = item?.field("file")
    const [name, path] = [
      textIn(file?.field("name"), bytes),
      textIn(file?.field("provider_data")?.field("path"), bytes)
    ]
    return name === undefined || path === undefined ? [] : [{ name, path }]
  })

/** Keeps none of the bytes. */
export const read = (turn: Found, bytes: Uint8Array): ReadTurn => ({
  text: TurnParts.textOf(turn, bytes),
  files: filesOf(turn, bytes),
  usage: Usage.read(turn, bytes)?.tokens ?? null
})

const linkText = (name: string) => name.replaceAll(/[[\]\\]/g, "\\$&")

const isDots = /^(\.|%2e){1,2}$/i

const encodeSegment = (segment: string) =>
  encodeURIComponent(segment)
    .replaceAll(/%25(?=[\da-f]{2})/gi, "%")
    .replaceAll(/[()]/g, (each) => each === "(" ? "%28" : "%29")

/**
 * The address of a file. What ends a path, or a link of Markdown, is encoded, and what the path has encoded itself is kept. Segments
 * of dots, which would lead out of the storage, cannot be encoded and are left out.
 */
export const addressOf = (storageBase: string, path: string): string =>
  [storageBase, ...path.toWellFormed().split("/").filter((segment) => !isDots.test(segment)).map(encodeSegment)].join(
    "/"
  )

/** The text, with links to the files at its end. `storageBase` is the base URL of the storage. */
export const linkedText = ({ files, text }: ReadTurn, storageBase: string): RawJson.RawJson | undefined => {
  const links = files.map(({ name, path }) => RawJson.ofText(`[${linkText(name)}](${addressOf(storageBase, path)})`))
  return links.length === 0
    ? text
    : TurnParts.joinTexts([...(text === undefined ? [] : [text]), ...links].map(({ bytes }) => bytes))
}

/** Bytes of a text that are decoded at a time. */
const sliceBytes = 16 * 1024

/** The end of the slice of a string's token up to `to`, or a few bytes before, so that it cuts no character and no escape. */
const cutAt = (bytes: Uint8Array, from: number, to: number): number => {
  let end = to
  while ((bytes[end]! & 0xc0) === 0x80) end--
  const backslash = bytes.subarray(from, end).lastIndexOf(0x5c) + from
  let first = backslash
  while (first > from && bytes[first - 1] === 0x5c) first--
  const isEscape = backslash >= from && (backslash - first) % 2 === 0
  return isEscape && backslash + (bytes[backslash + 1] === 0x75 ? 6 : 2) > end ? backslash : end
}

/** The text in slices of about `size` bytes of JSON, which cut no character that is well formed. */
export const slicesOf = function*({ bytes }: RawJson.RawJson, size = sliceBytes): Generator<string> {
  const last = bytes.length - 1
  let carried = ""
  for (let from = 1; from < last;) {
    const to = last - from <= size ? last : cutAt(bytes, from, from + size)
    const inside = textOf(bytes, from, to)
    const text = carried + (inside.includes("\\") ? JSON.parse(`"${inside}"`) : inside)
    const isHalf = to < last && /[\uD800-\uDBFF]$/.test(text)
    carried = isHalf ? text.slice(-1) : ""
    yield isHalf ? text.slice(0, -1) : text
    from = to
  }
}
