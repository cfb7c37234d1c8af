/** `GET /v1/responses/{id}/input_items`: pages of the kept input. */
import { Predicate, Schema } from "effect"
import { type JsonObject, JsonObjects } from "../../../domain/OpaqueJson.ts"
import * as Ids from "./Ids.ts"

const isItems = Schema.is(JsonObjects)

const itemsOf = (input: unknown): ReadonlyArray<JsonObject> =>
  isItems(input) ? input : [{ role: "user", content: String(input) }]

/** The items as the API lists them: each has an id, and the content of a message is a list of parts. */
export const listed = (input: unknown, id: Ids.LegId): ReadonlyArray<JsonObject> =>
  itemsOf(input).map((item, index) => {
    const { content, role } = item
    const type = item["type"] ?? "message"
    const partType = role === "assistant" ? "output_text" : "input_text"
    return {
      ...item,
      id: item["id"] ?? Ids.inputId(id, index),
      type,
      ...(Predicate.isString(content) ? { content: [{ type: partType, text: content }] } : {}),
      ...(type === "message" ? { status: "completed" } : {})
    }
  })

/** One page. `after` is the id of the last item of the page before; an unknown one gives an empty page. */
export const page = (
  items: ReadonlyArray<JsonObject>,
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
    first_id: data[0]?.["id"] ?? null,
    last_id: data.at(-1)?.["id"] ?? null,
    has_more: rest.length > data.length
  }
}
