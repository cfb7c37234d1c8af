/** Calls of the internal interface, and commands that are one of them: their flags are the parameters of the operation. */
import { Console, Effect, type Option, Record, type Redacted, Schema, Stream } from "effect"
import { Command, type Flag } from "effect/cli"
import { FetchHttpClient, HttpClient, HttpClientRequest, HttpClientResponse } from "effect/http"
import type * as Parameters from "../../http/Parameters.ts"
import { rootCauseMessage } from "../../services/telemetry/RootCause.ts"
import * as Addresses from "../config/Addresses.ts"
import { optionalInt, optionalText } from "./Flags.ts"
import type { Output } from "./Output.ts"
import { CommandFailed, failed, findInternalToken, internalToken, internalUrl, printResult } from "./Root.ts"

export type Token = Option.Option<Redacted.Redacted>
type Method = "GET" | "POST" | "PUT" | "PATCH" | "DELETE"
type View = Schema.ConstraintDecoder<unknown>
type Given = Readonly<Record<string, Option.Option<string | number>>>

const Refusal = Schema.Struct({
  message: Schema.String,
  code: Schema.optionalKey(Schema.NullOr(Schema.String)),
  errors: Schema.optionalKey(Schema.Record(Schema.String, Schema.Array(Schema.String)))
})

const broken = <A, E extends Error, R>(effect: Effect.Effect<A, E, R>) =>
  Effect.flatMap(internalUrl, (url) =>
    Effect.mapError(
      effect,
      (error) => failed(`Request to the service at ${Addresses.shown(url)} failed: ${rootCauseMessage(error)}`)
    ))

/** Sends a request to a path below `/internal`; a refusal fails with its message. The client of a stream must outlive this call. */
export const send = Effect.fnUntraced(function*(
  given: Token,
  method: Method,
  path: string,
  { body, headers = {} }: { readonly body?: object; readonly headers?: Readonly<Record<string, string>> } = {}
) {
  const request = HttpClientRequest.make(method)(`${yield* internalUrl}/internal${path}`).pipe(
    HttpClientRequest.bearerToken(yield* findInternalToken(given)),
    HttpClientRequest.setHeaders({ "x-via": "cli", ...headers })
  )
  const response = yield* broken(
    HttpClient.execute(body === undefined ? request : HttpClientRequest.bodyJsonUnsafe(request, body))
  )
  if (response.status < 300) return response
  return yield* new CommandFailed(yield* broken(HttpClientResponse.schemaBodyJson(Refusal)(response)))
})

/** The body of the response. */
export const call = Effect.fnUntraced(function*<V extends View>(
  token: Token,
  view: V,
  method: Method,
  path: string,
  body?: object
) {
  const response = yield* send(token, method, path, body === undefined ? {} : { body })
  return yield* broken(HttpClientResponse.schemaBodyJson(view)(response))
}, Effect.provide(FetchHttpClient.layer))

/** A request whose response has no body. */
export const callEmpty = (...given: Parameters<typeof send>) =>
  Effect.asVoid(send(...given)).pipe(Effect.provide(FetchHttpClient.layer))

/** Prints the lines of a response as they arrive. */
export const writeLines = Effect.fnUntraced(function*(token: Token, path: string) {
  const response = yield* send(token, "GET", path)
  let last = ""
  const lines = response.stream.pipe(Stream.decodeText, Stream.splitLines)
  yield* broken(Stream.runForEach(lines, (line) => {
    last = line
    return Console.log(line)
  }))
  if (!last.startsWith(`{"type":"end"`)) return yield* failed("The export is not whole: it ended early")
}, Effect.provide(FetchHttpClient.layer))

/** The query of flags. */
export const queryOf = (given: Given) => {
  const query = new URLSearchParams()
  for (const [name, value] of Object.entries(Record.getSomes(given))) query.set(name, String(value))
  return query.size === 0 ? "" : `?${query}`
}

/** The first sentence, with the bounds of a number and the words that are known. */
const helpOf = ({ description, schema }: Parameters.Parameter<unknown>) => {
  const [sentence = ""] = /^.*?(?=\.(\s|$))/.exec(description) ?? []
  const bounds = schema["default"] === undefined ? "" : ` (default: ${schema["default"]}; at most ${schema["maximum"]})`
  const words = schema["type"] === "string" && schema["enum"] !== undefined ? `: ${schema["enum"].join(", ")}` : ""
  return `${sentence}${bounds}${words}`
}

export const flagsOf = <P extends Readonly<Record<string, Parameters.Parameter<unknown>>>>(parameters: P) =>
  Record.map(
    parameters,
    (parameter, name): Flag.Flag<Option.Option<string | number>> =>
      parameter.schema["type"] === "integer"
        ? optionalInt(name.replaceAll("_", "-"), helpOf(parameter))
        : optionalText(name.replaceAll("_", "-"), helpOf(parameter))
  )

/** A command that reads and prints. */
export const reading = <const Name extends string, V extends View>(
  name: Name,
  path: string,
  view: V,
  parameters: Parameters<typeof flagsOf>[0],
  render: (value: V["Type"], output: Output) => string
) =>
  Command.make(
    name,
    { internalToken, given: flagsOf(parameters) },
    ({ given, internalToken }) => printResult(call(internalToken, view, "GET", path + queryOf(given)), render)
  )

/** A table of one page, and how to get the next one. */
export const withNext = (table: string, { next }: { readonly next: string | null }) =>
  next === null ? table : `${table}\nNext page: --cursor ${next}`

/** A command that reads a list: the cells of a row by the names of their columns. */
export const listing = <const Name extends string, Row>(
  name: Name,
  path: string,
  view: Schema.ConstraintDecoder<{ readonly data: ReadonlyArray<Row>; readonly next?: string | null }>,
  parameters: Parameters<typeof flagsOf>[0],
  columns: Readonly<Record<string, (row: Row, output: Output) => string>>,
  empty: string
) =>
  reading(name, path, view, parameters, ({ data, next = null }, output) => {
    const rows = data.map((row) => Object.values(columns).map((cell) => cell(row, output)))
    return withNext(output.table(Object.keys(columns), rows, empty), { next })
  })
