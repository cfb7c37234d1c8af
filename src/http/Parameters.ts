/** Parameters of queries, each described once: its documentation, its decoder and the flag of a command follow. */
import { Effect, Option, Result, Schema } from "effect"
import { Base64Url } from "effect/encoding"
import { HttpServerRequest } from "effect/http"
import { hasAtMostCharacters, isStorable } from "../domain/Fields.ts"
import { parse, Timestamp } from "../domain/Timestamp.ts"
import { invalid } from "./contract/Errors.ts"
import type { Node } from "./contract/OpaqueSchemas.ts"
import { validationFailed } from "./handlers/body/BodyErrors.ts"

export interface Parameter<A> {
  readonly description: string
  readonly schema: Node
  /** Undefined for a text that is no value. */
  readonly read: (text: string) => A | undefined
  readonly expected: string
  /** The value of a query without it. */
  readonly absent: A
}

type Parameters = Readonly<Record<string, Parameter<unknown>>>
type Values<P extends Parameters> = { readonly [Name in keyof P]: P[Name]["absent"] }

/** Characters: a user, an origin and an id are shorter. */
export const maxText = 2048

const make = <A>(
  schema: Node,
  absent: A,
  expected: string,
  read: (text: string) => NoInfer<A> | undefined,
  description: string
): Parameter<A> => ({ description, schema, read, expected, absent })

export const text = (
  description: string,
  { longest = maxText, schema = { type: "string" } }: { readonly longest?: number; readonly schema?: Node } = {}
): Parameter<string | null> =>
  make<string | null>(
    schema,
    null,
    `one text of 1 to ${longest} characters`,
    (text) => hasAtMostCharacters(text, longest) ? text : undefined,
    description
  )

export const oneOf = <const Value extends string, const Absent extends Value | null = null>(
  description: string,
  values: ReadonlyArray<Value>,
  absent?: Absent
) =>
  make<Value | Absent>(
    { type: "string", enum: values, ...(absent === undefined ? {} : { default: absent }) },
    // Without a third argument `Absent` is null.
    (absent ?? null) as Absent,
    `one of ${values.join(", ")}`,
    (text) => values.find((value) => value === text),
    description
  )

/** An integer from 1. */
export const integer = <Absent extends number | null>(description: string, maximum: number, absent: Absent) =>
  make<number | Absent>(
    { type: "integer", minimum: 1, maximum, ...(absent === null ? {} : { default: absent }) },
    absent,
    `an integer between 1 and ${maximum}`,
    (text) => /^\d{1,16}$/.test(text) && Number(text) >= 1 && Number(text) <= maximum ? Number(text) : undefined,
    description
  )

export const momentSchema = { type: "string", format: "date-time" }

export const moment = (description: string): Parameter<Timestamp | null> =>
  make<Timestamp | null>(momentSchema, null, "a moment in ISO 8601 with its offset", parse, description)

/** The parameters in the document of an operation. */
export const documented = (parameters: Parameters): ReadonlyArray<Node> =>
  Object.entries(parameters).map(([name, { description, schema }]) => ({
    name,
    in: "query",
    required: false,
    description,
    schema
  }))

/** Decodes a query, in which each parameter is at most once. An unknown name is an error: ignoring it would return an unfiltered list. */
export const decode = Effect.fnUntraced(function*<P extends Parameters>(
  parameters: P,
  given: Readonly<Record<string, unknown>>
) {
  const names = Object.keys(parameters)
  const errors: Record<string, ReadonlyArray<string>> = {}
  const found: Record<string, unknown> = Object.fromEntries(names.map((name) => [name, parameters[name]?.absent]))
  for (const [name, value] of Object.entries(given)) {
    const parameter = parameters[name]
    if (parameter === undefined) {
      errors[name.slice(0, 64)] = [`Expected one of ${names.join(", ")}`]
      continue
    }
    const isText = typeof value === "string" && value !== "" && hasAtMostCharacters(value, maxText) && isStorable(value)
    found[name] = isText ? parameter.read(value) : undefined
    if (found[name] === undefined) errors[name] = [`Expected ${isText ? parameter.expected : text("").expected}`]
  }
  if (Object.keys(errors).length > 0) return yield* validationFailed(errors)
  // Each name has the value that its own parameter read.
  return found as Values<P>
})

/** Decodes the query of a request. */
export const read = <P extends Parameters>(parameters: P) =>
  Effect.flatMap(HttpServerRequest.ParsedSearchParams, (given) => decode(parameters, given))

/** The row behind which a page begins. */
export interface Position {
  readonly at: Timestamp
  readonly id: string
}

const cursorVersion = 1
const decodeCursor = Schema.decodeUnknownOption(
  Schema.fromJsonString(Schema.Tuple([Schema.Literal(cursorVersion), Schema.String, Timestamp, Schema.String]))
)

/** The text of a position in one order. */
export const cursorOf = (order: string, position: Position | null): string | null =>
  position === null ? null : Base64Url.encode(JSON.stringify([cursorVersion, order, position.at, position.id]))

/** The position of a cursor; null without one. */
export const positionOf = (order: string, isId: (id: string) => boolean, cursor: string | null) => {
  if (cursor === null) return Effect.succeed(null)
  return Result.getSuccess(Base64Url.decodeString(cursor)).pipe(
    Option.flatMap(decodeCursor),
    Option.filter(([, of, , id]) => of === order && isId(id)),
    Option.match({
      onNone: () => Effect.fail(invalid("cursor", "Expected `next` of a page with the same filter")),
      onSome: ([, , at, id]) => Effect.succeed<Position>({ at, id })
    })
  )
}

/** The parameters of a list in pages. */
export const paging = (bounds: { readonly default: number; readonly maximum: number }) => ({
  cursor: text("`next` of the page before, with the same filter."),
  limit: integer("Page size.", bounds.maximum, bounds.default)
})
