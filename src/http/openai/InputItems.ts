/** `GET /v1/responses/{id}/input_items`: pages of the kept input. */
import * as RawJson from "../../domain/json/RawJson.ts"
import { readValid } from "../../domain/json/Reader.ts"
import { array, raw, record } from "../../domain/json/Shape.ts"
import { Kind } from "../../domain/json/tables.ts"
import type { Writable } from "../../domain/json/Writer.ts"
import * as Limits from "../../domain/Limits.ts"
import * as Ids from "./Ids.ts"

type Fields = { readonly [field: string]: Writable | undefined }
export type Listed = Fields & { readonly id: string }

/** The kept input is a text, or a list of objects: it was decoded before. It has no more pairs. */
const shape = array(record(raw, Limits.keptRequestBytes))

const itemsOf = (input: RawJson.RawJson): ReadonlyArray<Fields> =>
  input.kind === Kind.array
    ? RawJson.readValid(shape, input.bytes) as ReadonlyArray<Fields>
    : [{ role: "user", content: input }]

const isText = (value: Writable | undefined) => value instanceof RawJson.RawJson && value.kind === Kind.string

const textIn = (value: Writable | undefined): unknown =>
  value instanceof RawJson.RawJson ? readValid(value.bytes) : value

/** The items as the API lists them: each has an id, and the content of a message is a list of parts. */
export const listed = (input: RawJson.RawJson, id: Ids.LegId): ReadonlyArray<Listed> =>
  itemsOf(input).map((item, index) => {
    const type = textIn(item["type"]) ?? "message"
    const given = item["id"]
    const partType = textIn(item["role"]) === "assistant" ? "output_text" : "input_text"
    return {
      ...item,
      id: isText(given) ? String(textIn(given)) : Ids.inputId(id, index),
      type: item["type"] ?? "message",
      ...(isText(item["content"]) ? { content: [{ type: partType, text: item["content"] }] } : {}),
      ...(type === "message" ? { status: "completed" } : {})
    }
  })

/** One page. `after` is the id of the last item of the page before; an unknown one gives an empty page. */
export const page = (
  items: ReadonlyArray<Listed>,
  { after, isAscending, limit }: {
    readonly after: string | undefined
    readonly limit: number
    readonly isAscending: boolean
  }
) => {
  const ordered = isAscending ? items : items.toReversed()
  const at = ordered.findIndex(({ id }) => id === after)
  const rest = after === undefined ? ordered : at < 0 ? [] : ordered.slice(at + 1)
  const data = rest.slice(0, limit)
  return {
    object: "list",
    data,
    first_id: data[0]?.id ?? null,
    last_id: data.at(-1)?.id ?? null,
    has_more: rest.length > data.length
  }
}
