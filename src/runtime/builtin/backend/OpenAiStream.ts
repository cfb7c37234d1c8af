/**
 * The response stream of `/chat/completions`: its events become the parts of `effect/ai`. A stream that ends without a finish reason is a
 * failure, not a shorter response.
 */
import { Array as Arr, Cause, Duration, Effect, Predicate, Pull, Result, Schema, Stream } from "effect"
import { AiError, Response, Tool } from "effect/ai"
import { Sse } from "effect/encoding"
import type { HttpClientResponse } from "effect/http"
import { isDeeperThan } from "./ToolArguments.ts"

/** Longest pause of a provider; after it the call fails. */
export const maxSilence = Duration.minutes(5)

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

/** A longer `Retry-After` is reduced to this. */
const maxRetryAfter = Duration.minutes(2)

/** Every response has one block of text. */
const textId = "0"

const absentOr = <S extends Schema.Top>(schema: S) => Schema.optional(Schema.NullOr(schema))

const CallPiece = Schema.Struct({
  index: absentOr(Schema.Int),
  id: absentOr(Schema.String),
  function: absentOr(Schema.Struct({ name: absentOr(Schema.String), arguments: absentOr(Schema.String) }))
})

const Delta = Schema.Struct({ content: absentOr(Schema.String), tool_calls: absentOr(Schema.Array(CallPiece)) })

const Chunk = Schema.Struct({
  choices: absentOr(Schema.Array(Schema.Struct({ delta: absentOr(Delta), finish_reason: absentOr(Schema.String) }))),
  usage: absentOr(Schema.Struct({ prompt_tokens: absentOr(Schema.Int), completion_tokens: absentOr(Schema.Int) })),
  error: Schema.optional(Schema.Json)
})

const decodeUnknownChunk = Schema.decodeUnknownResult(Schema.fromJsonString(Chunk))
const decodeChunk = (data: string) => Result.mapError(decodeUnknownChunk(data), ({ _tag }) => callFailed(_tag))

const isFinishReason = Schema.is(Response.FinishReason)

export const aiError = (reason: AiError.AiErrorReason) =>
  AiError.make({ module: "OpenAiModel", method: "chat", reason })

/** The call failed and may succeed when retried. */
export const callFailed = (description: string) =>
  aiError(new AiError.NetworkError({ reason: "TransportError", method: "POST", url: "/chat/completions", description }))

/** Not retried, because the same call would return as much again. */
const tooMuch = aiError(new AiError.UnknownError({ description: tooLong }))

/** Classifies a provider's error by its status and the error code anywhere in its body. */
export const reasonOf = (status: number, body: string, retryAfter?: string): AiError.AiErrorReason => {
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

/** Parses arguments. Invalid JSON stays text, which no tool accepts. */
const paramsOf = (text: string): unknown => {
  try {
    const parsed = Tool.unsafeSecureJsonParse(text === "" ? "{}" : text)
    return isDeeperThan(parsed, maxArgumentLevels) ? text : parsed
  } catch {
    return text
  }
}

type Parts = ReadonlyArray<Response.StreamPartEncoded>

/** Assembles the chunks of a stream: emits text immediately, and tool calls at the end. */
class Assembly {
  readonly #calls = new Map<number, { id: string; name: string; arguments: string }>()
  #lastKey = 0
  #usage: typeof Chunk.Type["usage"]
  #reason: string | undefined
  #callCharacters = 0

  add(
    { choices, usage }: typeof Chunk.Type
  ): Result.Result<Parts, AiError.AiError> {
    this.#usage = usage ?? this.#usage
    const { delta, finish_reason } = choices?.[0] ?? {}
    this.#reason = finish_reason ?? this.#reason
    for (const piece of delta?.tool_calls ?? []) {
      const { function: part, id } = piece
      const key = this.#lastKey = this.#keyOf(piece)
      const call = this.#calls.get(key) ?? { id: "", name: "", arguments: "" }
      this.#calls.set(key, {
        id: call.id || (id ?? ""),
        name: call.name || (part?.name ?? ""),
        arguments: call.arguments + (part?.arguments ?? "")
      })
      this.#callCharacters += (id?.length ?? 0) + (part?.name?.length ?? 0) + (part?.arguments?.length ?? 0)
    }
    if (this.#callCharacters > maxCallCharacters || this.#calls.size > maxCalls) return Result.fail(tooMuch)
    return Result.succeed(delta?.content ? [{ type: "text-delta", id: textId, delta: delta.content }] : [])
  }

  /** The index of a call. A piece without one begins a call if it has another id, or only a name, and continues the last call otherwise. */
  #keyOf({ function: part, id, index }: typeof CallPiece.Type) {
    const last = this.#calls.get(this.#lastKey)
    const isNew = last === undefined || (id ? id !== last.id : Boolean(part?.name))
    return index ?? (isNew ? -1 - this.#calls.size : this.#lastKey)
  }

  end(): Effect.Effect<Parts, AiError.AiError> {
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

/** The codes and types that providers send with status 429 outside a stream. */
const isOfLimit = (name: unknown) =>
  Predicate.isString(name) && /^(insufficient_quota|billing_hard_limit|rate_limit)/.test(name)

const errorInStream = (error: Schema.Json) => {
  const fields: Readonly<Record<string, unknown>> = Predicate.isObject(error) ? error : {}
  const { code, status, type } = fields
  const sent = [code, status].map(Number).find((number) => Number.isInteger(number) && number >= 400)
  return aiError(reasonOf(isOfLimit(code) || isOfLimit(type) ? 429 : sent ?? 500, JSON.stringify(error)))
}

/** Reads the events of a body in one step for each piece, because a model sends thousands of small ones. */
class Reader {
  readonly #assembly = new Assembly()
  readonly #text = new TextDecoder()
  readonly #events = Sse.makeParser((event) => {
    // A response is never reconnected to, so the delay before that has no meaning.
    if (event._tag === "Event") this.#found.push(event)
  }, { maxEventSize: maxEventCharacters })
  #found: Array<Sse.Event> = []
  #left = maxAnswerBytes
  /** The last parts or the failure, once the response has ended. */
  rest: Effect.Effect<Parts, AiError.AiError> | undefined

  /** Returns the parts that the bytes complete. */
  read(bytes: Uint8Array): Parts {
    const parts: Array<Response.StreamPartEncoded> = []
    this.#left -= bytes.byteLength
    const error = this.#events.feed(this.#text.decode(bytes, { stream: true }))
    for (const event of this.#found) {
      if (event.data === "[DONE]") {
        this.rest = this.#assembly.end()
        return parts
      }
      const added = Result.flatMap(decodeChunk(event.data), (decoded) => this.#add(decoded))
      if (Result.isFailure(added)) {
        this.rest = Effect.fail(added.failure)
        return parts
      }
      parts.push(...added.success)
    }
    this.#found = []
    if (this.#left < 0 || error !== undefined) this.rest = Effect.fail(tooMuch)
    return parts
  }

  #add({ error, ...chunk }: typeof Chunk.Type) {
    return Predicate.isNullish(error) ? this.#assembly.add(chunk) : Result.fail(errorInStream(error))
  }

  end(): Parts {
    this.rest = this.#assembly.end()
    return []
  }
}

/** Bytes that are read in one turn of the event loop. They may contain thousands of events. */
const pieceBytes = 16 * 1024

const piecesOf = (chunk: Uint8Array) =>
  Array.from(
    { length: Math.ceil(chunk.length / pieceBytes) },
    (_, index) => chunk.subarray(index * pieceBytes, (index + 1) * pieceBytes)
  )

type PartsPull = Pull.Pull<Arr.NonEmptyReadonlyArray<Response.StreamPartEncoded>, AiError.AiError>

const asAiError = <E extends { readonly _tag: string }>(error: E | AiError.AiError) =>
  AiError.isAiError(error) ? error : callFailed(error._tag)

/** The parts of a streamed response. */
export const streamParts = (response: HttpClientResponse.HttpClientResponse) =>
  Stream.transformPull(response.stream, (pull) =>
    Effect.sync(() => {
      const reader = new Reader()
      const pullInTime = Effect.timeoutOrElse(pull, {
        duration: maxSilence,
        orElse: () => Effect.fail(callFailed("silence"))
      })
      const pieces: Array<Uint8Array> = []
      let bytesOfTurn = 0
      const emit = (parts: Parts): PartsPull => Arr.isReadonlyArrayNonEmpty(parts) ? Effect.succeed(parts) : next
      const read = (piece: Uint8Array): PartsPull => {
        bytesOfTurn += piece.length
        const reading = Effect.suspend(() => emit(reader.read(piece)))
        if (bytesOfTurn < pieceBytes) return reading
        bytesOfTurn = 0
        return Effect.andThen(Effect.yieldNow, reading)
      }
      const receive: PartsPull = Pull.matchEffect(pullInTime, {
        onSuccess: (chunks) => {
          for (const chunk of chunks) pieces.push(...piecesOf(chunk))
          return next
        },
        onFailure: (cause) => Effect.failCause(Cause.map(cause, asAiError)),
        onDone: () => emit(reader.end())
      })
      let isOver = false
      const next: PartsPull = Effect.suspend(() => {
        if (isOver) return Cause.done()
        if (reader.rest === undefined) {
          const piece = pieces.shift()
          return piece === undefined ? receive : read(piece)
        }
        isOver = true
        return Effect.flatMap(reader.rest, emit)
      })
      return next
    })).pipe((parts) => Stream.concat(Stream.make({ type: "text-start" as const, id: textId }), parts))
