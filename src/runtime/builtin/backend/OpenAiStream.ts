/**
 * The response stream of `/chat/completions`: its events become the parts of `effect/ai`. A stream that ends without a finish reason is a
 * failure, not a shorter response.
 */
import { Array as Arr, Cause, Duration, Effect, Predicate, Pull, Record, Result, Schema, Stream } from "effect"
import { AiError, Response, Tool } from "effect/ai"
import { Sse } from "effect/encoding"
import type { HttpClientResponse } from "effect/http"
import { encode } from "../../../domain/json/OpaqueJson.ts"
import { read } from "../../../domain/json/Reader.ts"
import { isDeeperThan } from "./ToolArguments.ts"

/** Longest pause of a provider; after it the call fails. */
export const maxSilence = Duration.minutes(5)

/** The model's client waits this long for more text, because each time that text is passed on costs more than to read it. */
export const pieceInterval = Duration.millis(40)
/** Interval of reports of the whole turn, which is stored. */
export const textInterval = Duration.seconds(1)

/** Maximum bytes of one streamed response, with its framing. */
const maxAnswerBytes = 128 * 1024 * 1024

const maxEventCharacters = 1024 * 1024

/** Maximum characters and number of the tool calls of one response. */
const maxCallCharacters = 1024 * 1024
const maxCalls = 128

/** Maximum characters of arguments that are parsed to see whether a call is complete. After that every call counts as incomplete. */
const maxCheckedCharacters = 4 * maxCallCharacters

/** Maximum levels of a tool call's arguments; deeper ones stay text, which no tool accepts. */
const maxArgumentLevels = 32

/** The message of a response that exceeds any maximum above. */
export const tooLong = "The answer is too long"

/** A longer `Retry-After` is reduced to this. */
const maxRetryAfter = Duration.minutes(2)

/** Every response has one block of text. */
const textId = "0"

type IsType = Predicate.Refinement<unknown, unknown>

const orAbsent = (isType: IsType) => (value: unknown) => value === undefined || value === null || isType(value)

/** An object whose fields have these types, are null or are absent. A schema takes seven times as long, and 1 kB for each event. */
const isObjectOf = <Types extends Readonly<Record<string, IsType>>>(types: Types) => {
  const hasFields = Predicate.Struct(Record.map(types, orAbsent))
  return (
    value: unknown
  ): value is { readonly [Name in keyof Types]?: Predicate.Refinement.Out<Types[Name]> | null } =>
    Predicate.isObject(value) && hasFields(value)
}

const isList = (value: unknown): value is ReadonlyArray<unknown> => Array.isArray(value)
const isInt = (value: unknown): value is number => Number.isSafeInteger(value)
const isText = Predicate.isString

const isCallPiece = isObjectOf({
  index: isInt,
  id: isText,
  function: isObjectOf({ name: isText, arguments: isText })
})
type CallPiece = Predicate.Refinement.Out<typeof isCallPiece>

const isChoice = isObjectOf({ delta: isObjectOf({ content: isText, tool_calls: isList }), finish_reason: isText })
type Choice = Predicate.Refinement.Out<typeof isChoice>

/** Only the first is used, and checked: each of hundreds of thousands of values would cost more to check than to parse. */
const isChoices = (value: unknown): value is readonly [Choice?, ...ReadonlyArray<unknown>] =>
  Array.isArray(value) && (value.length === 0 || isChoice(value[0]))

const isChunk = isObjectOf({
  choices: isChoices,
  usage: isObjectOf({
    prompt_tokens: isInt,
    completion_tokens: isInt,
    prompt_tokens_details: Predicate.isUnknown,
    completion_tokens_details: Predicate.isUnknown
  }),
  error: Predicate.isUnknown
})
type Chunk = Predicate.Refinement.Out<typeof isChunk>

/** A detail that the provider reports; undefined without one. */
const countIn = (details: unknown, name: string): number | undefined => {
  const count = Predicate.hasProperty(details, name) ? details[name] : undefined
  return isInt(count) && count >= 0 ? count : undefined
}

/** The chunk in an event; undefined if there is none. */
const parseChunk = (data: string): Chunk | undefined => {
  const value: unknown = Result.getOrUndefined(read(encode(data)))
  return isChunk(value) ? value : undefined
}

const isFinishReason = Schema.is(Response.FinishReason)

export const aiError = (reason: AiError.AiErrorReason) =>
  AiError.make({ module: "OpenAiModel", method: "chat", reason })

/** The call failed and may succeed when retried. */
export const callFailed = (description: string) =>
  aiError(new AiError.NetworkError({ reason: "TransportError", method: "POST", url: "/chat/completions", description }))

/** Not retried, because the same call would return as much again. */
const tooMuch = aiError(new AiError.UnknownError({ description: tooLong }))

/** Classifies a provider's error by its status and the error code anywhere in its text. */
export const reasonOf = (
  status: number,
  text: string,
  retryAfter: Duration.Duration | null = null
): AiError.AiErrorReason => {
  const isSpent = status === 402 || (status === 429 && /insufficient_quota|billing_hard_limit/.test(text))
  if (isSpent) return new AiError.QuotaExhaustedError({})
  const description = `status ${status}`
  if (status === 408 || status === 409) return new AiError.InternalProviderError({ description })
  if (status !== 429 && (status !== 503 || retryAfter === null)) {
    return AiError.reasonFromHttpStatus({ status, description })
  }
  return new AiError.RateLimitError(retryAfter === null ? {} : { retryAfter: Duration.min(retryAfter, maxRetryAfter) })
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

/** The codes and types that providers send with status 429 outside a stream. */
const isOfLimit = (name: unknown) =>
  Predicate.isString(name) && /^(insufficient_quota|billing_hard_limit|rate_limit)/.test(name)

const errorInStream = (error: unknown) => {
  const fields: Readonly<Record<string, unknown>> = Predicate.isObject(error) ? error : {}
  const { code, message, status, type } = fields
  const sent = [code, status].map(Number).find((number) => Number.isInteger(number) && number >= 400)
  const text = [code, type, message].filter(Predicate.isString).join("\n")
  return aiError(reasonOf(isOfLimit(code) || isOfLimit(type) ? 429 : sent ?? 500, text))
}

type Parts = ReadonlyArray<Response.StreamPartEncoded>

const notAChunk = callFailed("an event is not a chunk")

interface Call {
  id: string
  name: string
  arguments: string
}

/** Assembles the events of a stream: the text since the last `takeText`, and the tool calls at the end. */
class Assembly {
  readonly #calls: Array<Call> = []
  /** The latest call of each index. */
  readonly #byIndex = new Map<number, Call>()
  /** The call of the last piece. */
  #latest: Call | undefined
  #checkedCharacters = 0
  #usage: Chunk["usage"]
  #reason: string | undefined
  #callCharacters = 0
  #text = ""

  /** Adds the chunk in an event. Returns the failure that it is or causes. */
  add(event: string): AiError.AiError | undefined {
    const chunk = parseChunk(event)
    if (chunk === undefined) return notAChunk
    const { choices, error, usage } = chunk
    if (Predicate.isNotNullish(error)) return errorInStream(error)
    this.#usage = usage ?? this.#usage
    const { delta, finish_reason } = choices?.[0] ?? {}
    this.#reason = finish_reason ?? this.#reason
    this.#text += delta?.content ?? ""
    const pieces = delta?.tool_calls
    return Predicate.isNotNullish(pieces) ? this.#addCalls(pieces) : undefined
  }

  #addCalls(pieces: ReadonlyArray<unknown>): AiError.AiError | undefined {
    if (pieces.length > maxCalls) return tooMuch
    if (!pieces.every(isCallPiece)) return notAChunk
    for (const piece of pieces) {
      const { function: part, id } = piece
      const call = this.#callOf(piece)
      call.id ||= id ?? ""
      call.name ||= part?.name ?? ""
      call.arguments += part?.arguments ?? ""
      this.#callCharacters += (id?.length ?? 0) + (part?.name?.length ?? 0) + (part?.arguments?.length ?? 0)
    }
    return this.#callCharacters > maxCallCharacters || this.#calls.length > maxCalls ? tooMuch : undefined
  }

  /** The call that a piece continues or begins: of its index, or else the latest one. An index that nothing else names is ignored. */
  #callOf(piece: CallPiece): Call {
    const { function: part, id, index } = piece
    const key = index != null && index >= 0 ? index : undefined
    const isIndexed = key !== undefined && (this.#byIndex.has(key) || Boolean(part?.name) || Boolean(id))
    const known = isIndexed ? this.#byIndex.get(key) : this.#latest
    const call = known !== undefined && this.#continues(known, piece, isIndexed) ? known : this.#begin()
    if (isIndexed) this.#byIndex.set(key, call)
    this.#latest = call
    return call
  }

  #begin(): Call {
    const call = { id: "", name: "", arguments: "" }
    this.#calls.push(call)
    return call
  }

  #continues(call: Call, { function: part, id }: CallPiece, isIndexed: boolean): boolean {
    // Only the first piece of a call has a name, unless the provider repeats it.
    if (!part?.name) return true
    // Some providers give all calls the same index or none, so an id says more than an index.
    if (id ? id === call.id : isIndexed) return true
    // Others send the name and a new id in each piece.
    return part.name === call.name && this.#lacksEnd(call)
  }

  /** True if the arguments of a call are incomplete JSON. */
  #lacksEnd({ arguments: text }: Call): boolean {
    this.#checkedCharacters += text.length
    if (this.#checkedCharacters > maxCheckedCharacters) return true
    try {
      JSON.parse(text)
      return false
    } catch {
      return true
    }
  }

  /** A first half of a surrogate pair stays, unless the stream `isOver`: the second half may be in the next event. */
  takeText(isOver: boolean): Parts {
    const isHalf = /^[\ud800-\udbff]$/.test(this.#text.at(-1) ?? "")
    const end = this.#text.length - (isHalf && !isOver ? 1 : 0)
    const delta = this.#text.slice(0, end)
    this.#text = this.#text.slice(end)
    return delta === "" ? [] : [{ type: "text-delta", id: textId, delta }]
  }

  end(): Effect.Effect<Arr.NonEmptyReadonlyArray<Response.StreamPartEncoded>, AiError.AiError> {
    if (this.#reason === undefined) return Effect.fail(callFailed("the stream broke off"))
    const reason = this.#reason.replaceAll("_", "-")
    return Effect.succeed([
      { type: "text-end", id: textId },
      ...this.#calls.map((call, index) => ({
        type: "tool-call" as const,
        id: call.id || `call_${index}`,
        name: call.name,
        params: paramsOf(call.arguments)
      })),
      {
        type: "finish",
        reason: isFinishReason(reason) ? reason : "unknown",
        usage: {
          inputTokens: {
            total: this.#usage?.prompt_tokens ?? 0,
            cacheRead: countIn(this.#usage?.prompt_tokens_details, "cached_tokens")
          },
          outputTokens: {
            total: this.#usage?.completion_tokens ?? 0,
            reasoning: countIn(this.#usage?.completion_tokens_details, "reasoning_tokens")
          }
        }
      }
    ])
  }
}

/** Reads the events of a body as they arrive, without an effect for each: a model sends thousands of small ones. */
class Reader {
  readonly assembly = new Assembly()
  readonly #text = new TextDecoder()
  readonly #events = Sse.makeParser((event) => {
    // A response is never reconnected to, so the delay before that has no meaning.
    if (event._tag === "Event") this.#add(event.data)
  }, { maxEventSize: maxEventCharacters })
  bytes = 0
  /** The last parts or the failure, once the response has ended. */
  rest: Effect.Effect<Arr.NonEmptyReadonlyArray<Response.StreamPartEncoded>, AiError.AiError> | undefined

  read(piece: Uint8Array) {
    this.bytes += piece.byteLength
    const error = this.#events.feed(this.#text.decode(piece, { stream: true }))
    if (this.bytes > maxAnswerBytes || error !== undefined) this.end(tooMuch)
  }

  #add(data: string) {
    if (this.rest !== undefined) return
    if (data === "[DONE]") return this.end()
    const error = this.assembly.add(data)
    if (error !== undefined) this.end(error)
  }

  end(error?: AiError.AiError) {
    this.rest ??= error === undefined ? this.assembly.end() : Effect.fail(error)
  }
}

/** Bytes that are read in one turn of the event loop. They may contain thousands of events. */
export const pieceBytes = 16 * 1024

const piecesOf = (chunk: Uint8Array) =>
  chunk.length <= pieceBytes ? [chunk] : Array.from(
    { length: Math.ceil(chunk.length / pieceBytes) },
    (_, index) => chunk.subarray(index * pieceBytes, (index + 1) * pieceBytes)
  )

const asAiError = <E extends { readonly _tag: string }>(error: E | AiError.AiError) =>
  AiError.isAiError(error) ? error : callFailed(error._tag)

type PartsPull = Pull.Pull<Arr.NonEmptyReadonlyArray<Response.StreamPartEncoded>, AiError.AiError>

/** The parts of a streamed response. The text of one piece of its body is one part. */
export const streamParts = (response: HttpClientResponse.HttpClientResponse) =>
  Stream.transformPull(response.stream, (pull) =>
    Effect.sync(() => {
      const reader = new Reader()
      const pieces: Array<Uint8Array> = []
      let isOver = false

      const readMore = pull.pipe(
        Effect.timeoutOrElse({ duration: maxSilence, orElse: () => Effect.fail(callFailed("silence")) }),
        Effect.map((chunks) => {
          pieces.push(...chunks.flatMap(piecesOf))
        }),
        Pull.catchDone(() => Effect.sync(() => reader.end())),
        Effect.catchCause((cause) => Effect.sync(() => reader.rest = Effect.failCause(Cause.map(cause, asAiError))))
      )
      const next: PartsPull = Effect.suspend(() => {
        if (isOver) return Cause.done()
        const text = reader.assembly.takeText(reader.rest !== undefined)
        if (Arr.isReadonlyArrayNonEmpty(text)) return Effect.succeed(text)
        isOver = reader.rest !== undefined
        if (reader.rest !== undefined) return reader.rest
        const piece = pieces.shift()
        if (piece === undefined) return Effect.andThen(readMore, next)
        reader.read(piece)
        return pieces.length === 0 ? next : Effect.andThen(Effect.yieldNow, next)
      })
      return next
    })).pipe((parts) => Stream.concat(Stream.make({ type: "text-start" as const, id: textId }), parts))
