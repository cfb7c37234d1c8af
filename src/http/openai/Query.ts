/** Query parameters of the OpenAI façade. Others are ignored. */
import { Effect } from "effect"
import { HttpServerRequest } from "effect/http"
import { invalid } from "./Errors.ts"
import * as Events from "./Events.ts"

const one = (value: string | ReadonlyArray<string> | undefined) => typeof value === "string" ? value : value?.[0]

const integer = Effect.fnUntraced(
  function*(name: string, value: string | undefined, absent: number, minimum: number, maximum: number) {
    if (value === undefined) return absent
    const number = /^\d{1,10}$/.test(value) ? Number(value) : Number.NaN
    if (number >= minimum && number <= maximum) return number
    return yield* invalid(name, `Expected an integer between ${minimum} and ${maximum}`)
  }
)

/** `starting_after` is -1 for a stream from its first event. */
export const retrieve = Effect.gen(function*() {
  const { starting_after, stream } = yield* HttpServerRequest.ParsedSearchParams
  return {
    isStream: one(stream) === "true",
    after: yield* integer("starting_after", one(starting_after), -1, 0, Events.maxNumber)
  }
})

export const inputItems = Effect.gen(function*() {
  const query = yield* HttpServerRequest.ParsedSearchParams
  const order = one(query["order"]) ?? "desc"
  if (order !== "asc" && order !== "desc") return yield* invalid("order", "Expected asc or desc")
  return {
    isAscending: order === "asc",
    after: one(query["after"]),
    limit: yield* integer("limit", one(query["limit"]), 20, 1, 100)
  }
})
