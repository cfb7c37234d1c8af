/** Calls of the operator interface with their flags, for the commands of operators. */
import { Console, Effect, Option, type Redacted, Schema, Stream } from "effect"
import { FetchHttpClient, HttpClient, HttpClientRequest, HttpClientResponse } from "effect/http"
import { rootCauseMessage } from "../../../services/telemetry/RootCause.ts"
import { optionalInt, optionalText } from "../../cli/Flags.ts"
import { failed, findInternalToken, internalUrl } from "../../cli/Root.ts"
import * as Addresses from "../../config/Addresses.ts"

type Parameters = Readonly<Record<string, Option.Option<string | number>>>

const Refusal = Schema.Struct({ message: Schema.String })

const queryOf = (parameters: Parameters) => {
  const query = new URLSearchParams()
  for (const [name, value] of Object.entries(parameters)) if (Option.isSome(value)) query.set(name, String(value.value))
  return query.size === 0 ? "" : `?${query}`
}

const send = Effect.fnUntraced(function*(
  given: Option.Option<Redacted.Redacted>,
  request: (address: string) => HttpClientRequest.HttpClientRequest,
  path: string
) {
  const url = yield* internalUrl
  const token = yield* findInternalToken(given)
  const broken = Effect.mapError((error: Error) =>
    failed(`Request to the service at ${Addresses.shown(url)} failed: ${rootCauseMessage(error)}`)
  )
  const response = yield* HttpClient.execute(
    HttpClientRequest.bearerToken(request(`${url}/internal/operator${path}`), token).pipe(
      HttpClientRequest.setHeader("x-via", "cli")
    )
  ).pipe(broken)
  if (response.status < 300) return { response, broken }
  const { message } = yield* broken(HttpClientResponse.schemaBodyJson(Refusal)(response))
  return yield* failed(message)
})

const call = Effect.fnUntraced(function*<View extends Schema.ConstraintDecoder<unknown>>(
  given: Option.Option<Redacted.Redacted>,
  view: View,
  request: (address: string) => HttpClientRequest.HttpClientRequest,
  path: string
) {
  const { broken, response } = yield* send(given, request, path)
  return yield* broken(HttpClientResponse.schemaBodyJson(view)(response))
}, Effect.provide(FetchHttpClient.layer))

/** Prints the lines of a response as they arrive. */
export const writeLines = Effect.fnUntraced(function*(given: Option.Option<Redacted.Redacted>, path: string) {
  const { broken, response } = yield* send(given, HttpClientRequest.get, path)
  let last = ""
  const lines = response.stream.pipe(Stream.decodeText, Stream.splitLines)
  yield* broken(Stream.runForEach(lines, (line) => {
    last = line
    return Console.log(line)
  }))
  if (!last.startsWith(`{"type":"end"`)) return yield* failed("The export is not whole: it ended early")
}, Effect.provide(FetchHttpClient.layer))

export const get = <View extends Schema.ConstraintDecoder<unknown>>(
  token: Option.Option<Redacted.Redacted>,
  view: View,
  path: string,
  parameters: Parameters = {}
) => call(token, view, HttpClientRequest.get, path + queryOf(parameters))

export const post = <View extends Schema.ConstraintDecoder<unknown>>(
  token: Option.Option<Redacted.Redacted>,
  view: View,
  path: string,
  body: object = {}
) => call(token, view, (address) => HttpClientRequest.post(address).pipe(HttpClientRequest.bodyJsonUnsafe(body)), path)

export const put = <View extends Schema.ConstraintDecoder<unknown>>(
  token: Option.Option<Redacted.Redacted>,
  view: View,
  path: string,
  body: object
) => call(token, view, (address) => HttpClientRequest.put(address).pipe(HttpClientRequest.bodyJsonUnsafe(body)), path)

export const limit = optionalInt("limit", "Rows (default: 50; at most 200)")
/** Filters of tasks. The service refuses one that it does not have, such as `schedule` without schedules. */
export const taskFilter = {
  status: optionalText("status", "Only with this status"),
  sub: optionalText("sub", "Only of this user"),
  assistant: optionalInt("assistant", "Only of this assistant"),
  error: optionalText("error", "Only with this error"),
  fingerprint: optionalText("fingerprint", "Only with the cause that `errors` prints"),
  label: optionalText("label", "Only with this pair of metadata, as key=value"),
  q: optionalText("q", "Only with this text in id, user, metadata or error"),
  schedule: optionalText("schedule", "Only of this schedule")
}

export const range = {
  from: optionalText("from", "Begin of the range, a moment in ISO 8601 (default: 24 hours ago)"),
  to: optionalText("to", "End of the range (default: now)")
}
export const page = { limit, cursor: optionalText("cursor", "`next` of the page before") }

/** A table of one page, and how to get the next one. */
export const withNext = (table: string, { next }: { readonly next: string | null }) =>
  next === null ? table : `${table}\nNext page: --cursor ${next}`
