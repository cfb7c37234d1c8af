/** Reads a turn of the usual shape. The service stores turns unread, so whatever has another shape is skipped. */
import { Kind } from "../../domain/JsonBytes.ts"
import type { Found } from "../../domain/JsonPaths.ts"
import { readValid } from "../../domain/JsonReader.ts"
import { array, captured, merge, object, raw, small } from "../../domain/JsonShape.ts"
import type { RawJson } from "../../domain/RawJson.ts"
import * as TurnParts from "../../domain/TurnParts.ts"
import * as Usage from "../../domain/Usage.ts"

export interface ReadTurn {
  /** The text items, separated by blank lines, as a JSON text; undefined if it is empty. */
  readonly text: RawJson | undefined
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
