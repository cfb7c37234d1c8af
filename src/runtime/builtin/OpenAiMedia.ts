/** Speech to text and text to image, at any OpenAI-compatible provider. */
import { Effect, Schema } from "effect"
import { AiError } from "effect/ai"
import { Base64 } from "effect/encoding"
import { HttpClient, HttpClientRequest, HttpClientResponse } from "effect/http"
import { type Endpoint, post, retry } from "./OpenAiModel.ts"

const timeout = "5 minutes"

const Transcript = Schema.Struct({ text: Schema.String })

const Images = Schema.Struct({
  data: Schema.NonEmptyArray(Schema.Struct({
    b64_json: Schema.optional(Schema.NullOr(Schema.String)),
    url: Schema.optional(Schema.NullOr(Schema.String))
  }))
})

const unusable = () =>
  AiError.make({
    module: "OpenAiMedia",
    method: "call",
    reason: new AiError.InvalidResponseError({ description: "not an answer of this wire" })
  })

const bounded = <A, R>(call: Effect.Effect<A, AiError.AiError, R>) =>
  retry(call).pipe(Effect.timeoutOrElse({ duration: timeout, orElse: () => Effect.fail(unusable()) }))

export const transcribe = Effect.fnUntraced(function*(endpoint: Endpoint, name: string, bytes: Uint8Array) {
  const send = post(yield* HttpClient.HttpClient, endpoint)
  const form = new FormData()
  for (const [field, value] of Object.entries(endpoint.parameters)) form.set(field, String(value))
  form.set("model", endpoint.model)
  form.set("response_format", "json")
  form.set("file", new Blob([bytes as Uint8Array<ArrayBuffer>]), name)
  const { text } = yield* bounded(
    send("/audio/transcriptions", HttpClientRequest.bodyFormData(form)).pipe(
      Effect.flatMap((response) => Effect.mapError(HttpClientResponse.schemaBodyJson(Transcript)(response), unusable))
    )
  )
  return text
})

/** The bytes of one image. */
export const generateImage = Effect.fnUntraced(function*(endpoint: Endpoint, prompt: string) {
  const http = yield* HttpClient.HttpClient
  const send = post(http, endpoint)
  const fetched = (url: string) =>
    http.get(url).pipe(
      Effect.flatMap(HttpClientResponse.filterStatusOk),
      Effect.flatMap(({ arrayBuffer }) => arrayBuffer),
      Effect.map((buffer) => new Uint8Array(buffer))
    )
  const body = { ...endpoint.parameters, model: endpoint.model, prompt, n: 1 }
  return yield* bounded(
    send("/images/generations", HttpClientRequest.bodyJsonUnsafe(body)).pipe(
      Effect.flatMap((response) => Effect.mapError(HttpClientResponse.schemaBodyJson(Images)(response), unusable)),
      Effect.flatMap(({ data: [{ b64_json, url }] }): Effect.Effect<Uint8Array, unknown> => {
        if (b64_json) return Effect.fromResult(Base64.decode(b64_json))
        return url ? fetched(url) : Effect.fail(undefined)
      }),
      Effect.mapError((error) => AiError.isAiError(error) ? error : unusable())
    )
  )
})
