/**
 * A `LanguageModel` for any OpenAI-compatible `/chat/completions`. It always streams. An interrupted call closes its socket,
 * and a stream that ends without a finish reason is a failure, not a shorter response.
 */
import { Duration, Effect, identity, Predicate, Redacted, Schedule, Schema, Stream } from "effect"
import { AiError, LanguageModel, type Prompt, Response, Tool } from "effect/ai"
import { Base64, Sse } from "effect/encoding"
import { HttpClient, HttpClientRequest, type HttpClientResponse } from "effect/http"
import type { JsonObject } from "../../../domain/OpaqueJson.ts"
import * as BoundedBody from "../BoundedBody.ts"
import { isDeeperThan } from "./ToolArguments.ts"

/** One model at one provider. */
export interface Endpoint {
  /** Without a trailing slash; `/chat/completions` is appended. */
  readonly baseUrl: string
  readonly apiKey: Redacted.Redacted | undefined
  readonly model: string
  /** Additional fields of the request body, such as `temperature`. */
  readonly parameters: JsonObject
}

/** Longest pause of a provider; after it the call fails. */
const maxSilence = Duration.minutes(5)

/** A longer `Retry-After` is reduced to this. */
const maxRetryAfter = Duration.minutes(2)

const maxErrorBytes = 4096

/** Maximum bytes of one streamed response, with its framing. */
const maxAnswerBytes = 128 * 1024 * 1024

/** Maximum characters of one event of a stream. */
const maxEventCharacters = 1024 * 1024

/** Maximum characters and number of the tool calls of one response. */
const maxCallCharacters = 1024 * 1024
const maxCalls = 128

/** Maximum levels of a tool call's arguments; deeper ones stay text, which no tool accepts. */
const maxArgumentLevels = 32

/** The message of a response that exceeds any maximum above. */
export const tooLong = "The answer is too long"

/** Every response has one block of text. */
const textId = "0"

const absentOr = <S extends Schema.Top>(schema: S) => Schema.optional(Schema.NullOr(schema))

const Delta = Schema.Struct({
  content: absentOr(Schema.String),
  tool_calls: absentOr(Schema.Array(Schema.Struct({
    index: absentOr(Schema.Int),
    id: absentOr(Schema.String),
    function: absentOr(Schema.Struct({ name: absentOr(Schema.String), arguments: absentOr(Schema.String) }))
  })))
})

const Chunk = Schema.Struct({
  choices: absentOr(Schema.Array(Schema.Struct({ delta: absentOr(Delta), finish_reason: absentOr(Schema.String) }))),
  usage: absentOr(Schema.Struct({ prompt_tokens: absentOr(Schema.Int), completion_tokens: absentOr(Schema.Int) })),
  error: Schema.optional(Schema.Json)
})

const decodeChunk = Schema.decodeUnknownEffect(Schema.fromJsonString(Chunk))

const isFinishReason = Schema.is(Response.FinishReason)

const aiError = (reason: AiError.AiErrorReason) => AiError.make({ module: "OpenAiModel", method: "chat", reason })

/** The call failed and may succeed when retried. */
const callFailed = (description: string) =>
  aiError(new AiError.NetworkError({ reason: "TransportError", method: "POST", url: "/chat/completions", description }))

/** Not retried, because the same call would return as much again. */
const tooMuch = aiError(new AiError.UnknownError({ description: tooLong }))

/** Classifies a provider's error by its status and the error code anywhere in its body. */
const reasonOf = (status: number, body: string, retryAfter?: string): AiError.AiErrorReason => {
  const isSpent = status === 402 || (status === 429 && /insufficient_quota|billing_hard_limit/.test(body))
  if (isSpent) return new AiError.QuotaExhaustedError({})
  const description = `status ${status}`
  if (status === 408 || status === 409) return new AiError.InternalProviderError({ description })
  if (status !== 429) return AiError.reasonFromHttpStatus({ status, description })
  const seconds = Number(retryAfter)
  return new AiError.RateLimitError(
    seconds > 0 ? { retryAfter: Duration.min(Duration.seconds(seconds), maxRetryAfter) } : {}
  )
}

/** The failure of a response that is not 2xx. The provider's message appears only in the log, and the API key nowhere. */
const failureOf = ({ apiKey }: Endpoint) => (response: HttpClientResponse.HttpClientResponse) =>
  BoundedBody.readStart(response, maxErrorBytes).pipe(
    Effect.timeout("5 seconds"),
    Effect.orElseSucceed(() => ""),
    Effect.map((body) => apiKey === undefined ? body : body.replaceAll(Redacted.value(apiKey), "…")),
    Effect.tap((body) => Effect.logWarning("a model provider refused a call", { status: response.status, body })),
    Effect.flatMap((body) => Effect.fail(aiError(reasonOf(response.status, body, response.headers["retry-after"]))))
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

/** Parses arguments. Invalid JSON stays text, which no tool accepts. */
const paramsOf = (text: string): unknown => {
  try {
    const parsed = Tool.unsafeSecureJsonParse(text === "" ? "{}" : text)
    return isDeeperThan(parsed, maxArgumentLevels) ? text : parsed
  } catch {
    return text
  }
}

/** Assembles the chunks of a stream: emits text immediately, and tool calls at the end. */
class Assembly {
  readonly #calls = new Map<number, { id: string; name: string; arguments: string }>()
  #usage: typeof Chunk.Type["usage"]
  #reason: string | undefined
  #callCharacters = 0

  add(
    { choices, usage }: typeof Chunk.Type
  ): Effect.Effect<ReadonlyArray<Response.StreamPartEncoded>, AiError.AiError> {
    this.#usage = usage ?? this.#usage
    const { delta, finish_reason } = choices?.[0] ?? {}
    this.#reason = finish_reason ?? this.#reason
    for (const { function: part, id, index } of delta?.tool_calls ?? []) {
      const key = index ?? this.#calls.size
      const call = this.#calls.get(key) ?? { id: "", name: "", arguments: "" }
      this.#calls.set(key, {
        id: call.id || (id ?? ""),
        name: call.name || (part?.name ?? ""),
        arguments: call.arguments + (part?.arguments ?? "")
      })
      this.#callCharacters += (id?.length ?? 0) + (part?.name?.length ?? 0) + (part?.arguments?.length ?? 0)
    }
    if (this.#callCharacters > maxCallCharacters || this.#calls.size > maxCalls) return Effect.fail(tooMuch)
    return Effect.succeed(delta?.content ? [{ type: "text-delta", id: textId, delta: delta.content }] : [])
  }

  end(): Effect.Effect<ReadonlyArray<Response.StreamPartEncoded>, AiError.AiError> {
    if (this.#reason === undefined) return Effect.fail(callFailed("the stream broke off"))
    const reason = this.#reason.replaceAll("_", "-")
    return Effect.succeed([
      { type: "text-end", id: textId },
      ...Array.from(this.#calls.values(), (call, index) => ({
        type: "tool-call" as const,
        id: call.id || `call_${index}`,
        name: call.name,
        params: paramsOf(call.arguments)
      })),
      {
        type: "finish",
        reason: isFinishReason(reason) ? reason : "unknown",
        usage: {
          inputTokens: { total: this.#usage?.prompt_tokens ?? 0 },
          outputTokens: { total: this.#usage?.completion_tokens ?? 0 }
        }
      }
    ])
  }
}

const errorInStream = (error: Schema.Json) => {
  const code = Predicate.isObject(error) ? Number(error["code"] ?? error["status"]) : Number.NaN
  return aiError(reasonOf(Number.isInteger(code) ? code : 500, JSON.stringify(error)))
}

/** The parts of a streamed response. */
const streamParts = (response: HttpClientResponse.HttpClientResponse) =>
  Stream.suspend(() => {
    const assembly = new Assembly()
    const parts = response.stream.pipe(
      BoundedBody.limit(maxAnswerBytes),
      Stream.timeoutOrElse({ duration: maxSilence, orElse: () => Stream.fail(callFailed("silence")) }),
      Stream.decodeText(),
      Stream.pipeThroughChannel(Sse.decode({ maxEventSize: maxEventCharacters })),
      Stream.takeWhile(({ data }) => data !== "[DONE]"),
      Stream.mapEffect(({ data }) => decodeChunk(data)),
      Stream.mapError((error) => {
        if (AiError.isAiError(error)) return error
        return error._tag === "SseError" || error._tag === "BodyTooLong" ? tooMuch : callFailed(error._tag)
      }),
      Stream.mapEffect(({ error, ...chunk }) =>
        Predicate.isNullish(error) ? assembly.add(chunk) : Effect.fail(errorInStream(error))
      ),
      Stream.flattenIterable
    )
    return Stream.make({ type: "text-start" as const, id: textId }).pipe(
      Stream.concat(parts),
      Stream.concat(Stream.fromIterableEffect(Effect.suspend(() => assembly.end())))
    )
  })

const joined = (parts: ReadonlyArray<Response.StreamPartEncoded>): Array<Response.PartEncoded> => {
  const text = parts.map((part) => part.type === "text-delta" ? part.delta : "").join("")
  const others = parts.filter((part) => part.type === "tool-call" || part.type === "finish")
  return text === "" ? others : [{ type: "text", text }, ...others]
}

export const make = Effect.fnUntraced(function*(endpoint: Endpoint) {
  const http = yield* HttpClient.HttpClient

  const streamText = ({ prompt, toolChoice, tools }: LanguageModel.ProviderOptions) =>
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

  return yield* LanguageModel.make({
    streamText,
    generateText: (options) => Effect.map(Stream.runCollect(streamText(options)), joined)
  })
})
