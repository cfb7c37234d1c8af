/** Query and header parameters of the OpenAPI documents. */
import * as Limits from "../../domain/Limits.ts"
import { type Node, schemaRef } from "./OpaqueSchemas.ts"

export const integer = (minimum: number, maximum: number, fallback: number | undefined): Node => ({
  type: "integer",
  minimum,
  maximum,
  ...(fallback === undefined ? {} : { default: fallback })
})
export const query = (name: string, description: string, schema: Node, more: Node = {}): Node => ({
  name,
  in: "query",
  required: false,
  description,
  schema,
  ...more
})
export const header = (name: string, description: string, schema: Node = { type: "string" }): Node => ({
  name,
  in: "header",
  required: false,
  description,
  schema
})

const statusQuery =
  "Only tasks of these statuses: one value, or several with commas. Repeated parameters (`status=…&status=…` "
  + "or `status[]=…`) are accepted too. An empty or unknown value is 422."

const include = (description: string, names: ReadonlyArray<string>) =>
  query("include", description, { type: "array", items: { type: "string", enum: names } }, {
    style: "form",
    explode: false
  })

export const idempotencyKey = header(
  "Idempotency-Key",
  "Identifies the request, so that a repeated request takes effect only once. Remembered for 24 hours per user.",
  { type: "string", minLength: 1, maxLength: Limits.idempotencyKeyLength, pattern: "^[!-~]+$" }
)

/** Parameters outside the path; they replace the generated ones. */
export const parameters: Readonly<Record<string, ReadonlyArray<Node>>> = {
  "tasks.create": [idempotencyKey],
  "tasks.rerun": [idempotencyKey],
  "tasks.submitToolResults": [idempotencyKey],
  "tasks.cancel": [idempotencyKey],
  "tasks.list": [
    query("status", statusQuery, { type: "array", minItems: 1, items: schemaRef("TaskStatus") }, {
      style: "form",
      explode: false
    }),
    query("page", "Page number, from 1.", integer(1, Number.MAX_SAFE_INTEGER, 1)),
    query("per_page", "Page size.", integer(1, Limits.perPage.maximum, Limits.perPage.default)),
    query(
      "metadata",
      "Only tasks with these pairs of metadata, each as `metadata[key]=value`.",
      { type: "object", maxProperties: Limits.metadataFilters, additionalProperties: { type: "string", minLength: 1 } },
      { style: "deepObject", explode: true }
    ),
    include("`metadata` adds the metadata of each task.", ["metadata"])
  ],
  "tasks.get": [
    query(
      "wait",
      "Seconds to hold the response until the status is final or `interrupted`, or differs from the version in `If-None-Match`.",
      integer(1, Limits.waitSeconds, undefined)
    ),
    include(
      "Adds fields: `waiting_on`, the party that has to act next; `request`, the original request; `metadata`. `turn` is always there.",
      ["waiting_on", "request", "turn", "metadata"]
    ),
    header("If-None-Match", "The `ETag` of the client's version: 304 while it is current.")
  ],
  "tasks.events": [
    query("include", "`turn` adds the text of the partial turn to progress events.", {
      type: "string",
      enum: ["turn"]
    }),
    header("Last-Event-ID", "The id of the last event that the client received: later events are replayed.")
  ]
}
