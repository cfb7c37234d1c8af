/** Calls of `/internal/webhook-endpoints`, for the commands. */
import { Effect, type Option, type Redacted, Schema } from "effect"
import { FetchHttpClient, HttpClient, HttpClientRequest, HttpClientResponse } from "effect/http"
import { base } from "../../../http/endpoints/EndpointSchemas.ts"
import { rootCauseMessage } from "../../../services/telemetry/RootCause.ts"
import { CommandFailed, failed, findInternalToken, internalUrl } from "../../cli/Root.ts"
import * as Addresses from "../../config/Addresses.ts"

const Refusal = Schema.Struct({
  message: Schema.String,
  code: Schema.optionalKey(Schema.NullOr(Schema.String)),
  errors: Schema.optionalKey(Schema.Record(Schema.String, Schema.Array(Schema.String)))
})

type Method = "GET" | "POST" | "PATCH" | "DELETE"

/** Sends a request; a refusal fails with its message. The client of a stream must outlive this call. */
export const send = Effect.fnUntraced(function*(
  given: Option.Option<Redacted.Redacted>,
  method: Method,
  path: string,
  { body, headers = {} }: { readonly body?: object; readonly headers?: Readonly<Record<string, string>> } = {}
) {
  const url = yield* internalUrl
  const token = yield* findInternalToken(given)
  const broken = Effect.mapError((error: Error) =>
    failed(`Request to the service at ${Addresses.shown(url)} failed: ${rootCauseMessage(error)}`)
  )
  const request = HttpClientRequest.make(method)(`${url}${base}${path}`).pipe(
    HttpClientRequest.bearerToken(token),
    HttpClientRequest.setHeaders(headers)
  )
  const response = yield* HttpClient.execute(
    body === undefined ? request : HttpClientRequest.bodyJsonUnsafe(request, body)
  ).pipe(broken)
  if (response.status < 300) return response
  return yield* new CommandFailed(yield* broken(HttpClientResponse.schemaBodyJson(Refusal)(response)))
})

/** The body of the response. */
export const call = Effect.fnUntraced(
  function*<View extends Schema.ConstraintDecoder<unknown>>(
    token: Option.Option<Redacted.Redacted>,
    view: View,
    method: Method,
    path: string,
    body?: object
  ) {
    const response = yield* send(token, method, path, body === undefined ? {} : { body })
    return yield* Effect.mapError(
      HttpClientResponse.schemaBodyJson(view)(response),
      (error) => failed(`The service responded with something else: ${rootCauseMessage(error)}`)
    )
  },
  Effect.provide(FetchHttpClient.layer)
)

/** A request whose response has no body. */
export const callEmpty = (...given: Parameters<typeof send>) =>
  Effect.asVoid(send(...given)).pipe(Effect.provide(FetchHttpClient.layer))
