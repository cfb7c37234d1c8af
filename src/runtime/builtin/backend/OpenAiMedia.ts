/** Speech to text and text to image, with any OpenAI-compatible provider. */
import { Effect, Schema } from "effect"
import { AiError } from "effect/ai"
import { HttpClient, HttpClientRequest, HttpClientResponse } from "effect/http"
import * as BoundedBody from "../../../services/limits/BoundedBody.ts"
import { type Endpoint, post, retry } from "./OpenAiModel.ts"

const timeout = "5 minutes"
const maxImageBytes = 16 * 1024 * 1024

/** Bytes of a response with an image in base64, which is a third larger than the image. */
const maxImageAnswerBytes = 24 * 1024 * 1024

/** Bytes of a response with a transcript; enough for some hours of speech. */
const maxTranscriptBytes = 1024 * 1024

const Transcript = Schema.Struct({ text: Schema.String })

const Image = Schema.Union([Schema.Struct({ b64_json: Schema.String }), Schema.Struct({ url: Schema.String })])
const Images = Schema.Struct({ data: Schema.NonEmptyArray(Image) })

const readTranscript = BoundedBody.jsonReader(Transcript, maxTranscriptBytes)
const readImages = BoundedBody.jsonReader(Images, maxImageAnswerBytes)

const unusable = AiError.make({
  module: "OpenAiMedia",
  method: "call",
  reason: new AiError.InvalidResponseError({ description: "invalid response" })
})

const bounded = <A, E, R>(call: Effect.Effect<A, E, R>) =>
  retry(Effect.mapError(call, (error) => AiError.isAiError(error) ? error : unusable)).pipe(
    Effect.timeoutOrElse({ duration: timeout, orElse: () => Effect.fail(unusable) })
  )

export const transcribe = Effect.fnUntraced(function*(endpoint: Endpoint, name: string, bytes: Uint8Array) {
  const form = new FormData()
  for (const [field, value] of Object.entries(endpoint.parameters)) form.set(field, String(value))
  form.set("model", endpoint.model)
  form.set("response_format", "json")
  form.set("file", new Blob([new Uint8Array(bytes)]), name)
  const response = yield* post(endpoint, "/audio/transcriptions", HttpClientRequest.bodyFormData(form))
  return (yield* readTranscript(response)).text
}, bounded)

/** Generates one image and returns its bytes. */
export const generateImage = Effect.fnUntraced(function*(endpoint: Endpoint, prompt: string) {
  const body = HttpClientRequest.bodyJsonUnsafe({ ...endpoint.parameters, model: endpoint.model, prompt, n: 1 })
  const response = yield* post(endpoint, "/images/generations", body)
  const { data: [image] } = yield* readImages(response)
  // `keepImage` checks that the bytes are an image.
  if ("b64_json" in image) return Buffer.from(image.b64_json, "base64")
  const download = yield* HttpClientResponse.filterStatusOk(yield* HttpClient.get(image.url))
  return yield* BoundedBody.readBytes(download, maxImageBytes)
}, bounded)
