/**
 * A `LanguageModel` for any OpenAI-compatible `/chat/completions`. It can only stream. An interrupted call closes its socket.
 */
import { Clock, Duration, Effect, identity, Predicate, Redacted, Schedule, Stream, Struct } from "effect"
import { AiError, LanguageModel, type Prompt, Tool } from "effect/ai"
import { Base64 } from "effect/encoding"
import { HttpClient, HttpClientRequest, type HttpClientResponse } from "effect/http"
import { parseRetryAfter } from "../../../domain/DispatchRetry.ts"
import type { JsonObject } from "../../../domain/json/OpaqueJson.ts"
import type { RunOptions } from "../../../domain/TaskRequest.ts"
import * as BoundedBody from "../../../services/limits/BoundedBody.ts"
import { aiError, callFailed, maxSilence, reasonOf, streamParts } from "./OpenAiStream.ts"

/** One model at one provider. */
export interface Endpoint {
  /** Without a trailing slash; `/chat/completions` is appended. */
  readonly baseUrl: string
  readonly apiKey: Redacted.Redacted | undefined
  readonly model: string
  /** Additional fields of the request body, such as `temperature`. */
  readonly parameters: JsonObject
}

/** The parameters that mean the options: they replace the endpoint's own. */
const parametersOf = ({ max_output_tokens, response_format: format }: RunOptions): JsonObject => {
  const { type, ...schema } = format ?? {}
  return {
    ...(max_output_tokens === undefined ? {} : { max_completion_tokens: max_output_tokens }),
    ...(type === undefined ? {} : {
      response_format: type === "json_schema" ? { type, json_schema: schema } : { type }
    })
  }
}

export const withOptions = (endpoint: Endpoint, options: RunOptions | undefined): Endpoint => {
  if (options === undefined) return endpoint
  const { parameters } = endpoint
  const kept = options.max_output_tokens === undefined ? parameters : Struct.omit(parameters, ["max_tokens"])
  return { ...endpoint, parameters: { ...kept, ...parametersOf(options) } }
}

const maxErrorBytes = 4096

/** The failure of a response that is not 2xx. The provider's message appears only in the log, and the API key nowhere. */
const failureOf = ({ apiKey }: Endpoint) => (response: HttpClientResponse.HttpClientResponse) =>
  BoundedBody.readStart(response, maxErrorBytes).pipe(
    Effect.timeout("5 seconds"),
    Effect.orElseSucceed(() => ""),
    Effect.map((body) => apiKey === undefined ? body : body.replaceAll(Redacted.value(apiKey), "…")),
    Effect.tap((body) => Effect.logWarning("a model provider refused a call", { status: response.status, body })),
    Effect.flatMap((body) =>
      Effect.flatMap(Clock.currentTimeMillis, (at) => {
        const given = response.headers["retry-after"]
        const retryAfter = given === undefined ? null : parseRetryAfter(given, at)
        return Effect.fail(aiError(reasonOf(response.status, body, retryAfter)))
      })
    )
  )

/** Posts to a provider; every response that is not 2xx becomes an `AiError`. */
export const post = (
  endpoint: Endpoint,
  path: string,
  body: (request: HttpClientRequest.HttpClientRequest) => HttpClientRequest.HttpClientRequest
) =>
  HttpClientRequest.post(endpoint.baseUrl + path).pipe(
    endpoint.apiKey === undefined ? identity : HttpClientRequest.bearerToken(endpoint.apiKey),
    body,
    HttpClient.execute,
    Effect.mapError((error) => callFailed(error.reason._tag)),
    Effect.timeoutOrElse({ duration: maxSilence, orElse: () => Effect.fail(callFailed("timeout")) }),
    Effect.filterOrElse(({ status }) => status >= 200 && status < 300, failureOf(endpoint))
  )

const backoff = Schedule.exponential("500 millis").pipe(
  Schedule.jittered,
  Schedule.upTo({ times: 4 }),
  Schedule.setInputType<unknown>(),
  Schedule.modifyDelay(({ duration, input }) => {
    const retryAfter = AiError.isAiError(input) ? input.retryAfter : undefined
    return Effect.succeed(Duration.max(duration, retryAfter ?? Duration.zero))
  })
)

/** Attempts a call up to five times while its error is retryable, with backoff from half a second or after `Retry-After`. */
export const retry: <A, E, R>(call: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R> = Effect.retry({
  schedule: backoff,
  while: (error) => AiError.isAiError(error) && error.isRetryable
})

const dataOf = (part: Prompt.FilePart): string => {
  if (part.data instanceof URL) return part.data.href
  return `data:${part.mediaType};base64,${Predicate.isString(part.data) ? part.data : Base64.encode(part.data)}`
}

const toPart = (part: Prompt.UserMessagePart) =>
  part.type === "text"
    ? { type: "text", text: part.text }
    : { type: "image_url", image_url: { url: dataOf(part) } }

/** Tool results are text in this protocol, so their images follow in a message of the user. */
const toToolMessages = (message: Prompt.ToolMessage): ReadonlyArray<object> => {
  const results = message.content.filter((part) => part.type === "tool-result")
  const files = results.flatMap(({ modelOutput = [] }) => modelOutput.filter((part) => part.type === "file"))
  return [
    ...results.map(({ id, result }) => ({ role: "tool", tool_call_id: id, content: result })),
    ...(files.length === 0 ? [] : [{ role: "user", content: files.map(toPart) }])
  ]
}

const toMessages = (prompt: Prompt.Prompt): ReadonlyArray<object> =>
  prompt.content.flatMap((message): ReadonlyArray<object> => {
    switch (message.role) {
      case "system":
        return [{ role: "system", content: message.content }]
      case "user":
        return [{ role: "user", content: message.content.map(toPart) }]
      case "tool":
        return toToolMessages(message)
      case "assistant": {
        const text = message.content.map((part) => part.type === "text" ? part.text : "").join("")
        const calls = message.content.flatMap((part) => part.type === "tool-call" ? [part] : []).map((call) => ({
          id: call.id,
          type: "function",
          function: { name: call.name, arguments: JSON.stringify(call.params) }
        }))
        return [{ role: "assistant", content: text || null, ...(calls.length === 0 ? {} : { tool_calls: calls }) }]
      }
    }
  })

const toTool = (tool: Tool.Any) => ({
  type: "function",
  function: {
    name: tool.name,
    description: Tool.getDescription(tool),
    parameters: Tool.getJsonSchema(tool),
    strict: Tool.getStrictMode(tool)
  }
})

/** Returns the model of an endpoint. Each is made once, because it keeps the compiled decoder of its responses. */
export const makeModels = Effect.map(HttpClient.HttpClient, (http) => {
  const models = new WeakMap<Endpoint, LanguageModel.LanguageModel>()

  const streamText = (endpoint: Endpoint) => ({ prompt, toolChoice, tools }: LanguageModel.ProviderOptions) =>
    post(
      endpoint,
      "/chat/completions",
      HttpClientRequest.bodyJsonUnsafe({
        stream_options: { include_usage: true },
        ...endpoint.parameters,
        model: endpoint.model,
        messages: toMessages(prompt),
        ...(tools.length === 0 ? {} : { tools: tools.map(toTool), tool_choice: toolChoice }),
        stream: true
      })
    ).pipe(Effect.provideService(HttpClient.HttpClient, http), Effect.map(streamParts), Stream.unwrap)

  return Effect.fnUntraced(function*(endpoint: Endpoint) {
    const known = models.get(endpoint)
    if (known !== undefined) return known
    const model = yield* LanguageModel.make({
      streamText: streamText(endpoint),
      generateText: () => Effect.die("an agent always streams")
    })
    models.set(endpoint, model)
    return model
  })
})
