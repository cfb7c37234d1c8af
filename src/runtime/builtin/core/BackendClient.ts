/** The client of an assistant backend that is another process. */
import { Duration, Effect, Schema, Scope, Stream } from "effect"
import { HttpClient, HttpClientRequest, type HttpClientResponse } from "effect/http"
import { concat, fromJsonText, textOf } from "../../../domain/json/OpaqueJson.ts"
import * as BoundedBody from "../../../services/limits/BoundedBody.ts"
import { Chat, Transcription, TurnLine } from "../AssistantProtocol.ts"
import { type Backend, BackendFailed, BackendRefused, type Caller, skipToLatest } from "../Backend.ts"

/** Maximum bytes of one line of a turn. */
const maxLineBytes = 64 * 1024 * 1024

const newline = 0x0a

/** For a chat, and for a transcription: without a clock a connection that died silently would hold the run until its time limit. */
const chatTimeout = Duration.seconds(30)
const transcriptionTimeout = Duration.minutes(5)

/** Maximum bytes of a response other than a turn. */
const maxAnswerBytes = 1024 * 1024

const readChat = BoundedBody.jsonReader(Chat, maxAnswerBytes)
const readTranscription = BoundedBody.jsonReader(Transcription, maxAnswerBytes)
const decodeLine = Schema.decodeUnknownEffect(fromJsonText(TurnLine))

const toFailure = (cause: unknown) => new BackendFailed({ cause })

const within = (duration: Duration.Duration) => <A, E>(call: Effect.Effect<A, E>) =>
  Effect.timeoutOrElse(call, {
    duration,
    orElse: () => Effect.fail(toFailure(new Error(`no response within ${Duration.format(duration)}`)))
  })

class LineTooLong extends Schema.TaggedError<LineTooLong>()("LineTooLong", {}) {}

/** Splits chunks into their lines, each without its end. */
const makeLines = () => {
  let pieces: Array<Uint8Array> = []
  let size = 0
  const endLine = (piece: Uint8Array) => {
    const line = textOf(concat([...pieces, piece])).trim()
    pieces = []
    size = 0
    return line === "" ? [] : [line]
  }
  return {
    take: (chunk: Uint8Array): Effect.Effect<ReadonlyArray<string>, LineTooLong> => {
      const lines: Array<string> = []
      let from = 0
      for (let end = chunk.indexOf(newline); end >= 0; end = chunk.indexOf(newline, from)) {
        lines.push(...endLine(chunk.subarray(from, end)))
        from = end + 1
      }
      const rest = chunk.subarray(from)
      pieces.push(rest)
      size += rest.length
      return size > maxLineBytes ? Effect.fail(new LineTooLong()) : Effect.succeed(lines)
    },
    end: () => endLine(new Uint8Array(0))
  }
}

const streamOf = (response: HttpClientResponse.HttpClientResponse) =>
  Stream.suspend(() => {
    const { end, take } = makeLines()
    return response.stream.pipe(
      Stream.mapEffect(take),
      Stream.concat(Stream.suspend(() => Stream.make(end()))),
      Stream.flattenIterable,
      Stream.mapEffect((line) => decodeLine(line)),
      Stream.mapError(toFailure),
      skipToLatest
    )
  })

/** Reads a small turn whole. */
const linesOf = (response: HttpClientResponse.HttpClientResponse) =>
  BoundedBody.readText(response, maxLineBytes).pipe(
    Effect.map((body) => body.split(/\r?\n/).filter((text) => text !== "")),
    Effect.map((texts) => texts.map((text) => Effect.mapError(decodeLine(text), toFailure))),
    Effect.mapError(toFailure)
  )

/** `url` has no trailing slash. */
export const make = (url: string): Effect.Effect<Backend, never, HttpClient.HttpClient> =>
  Effect.map(HttpClient.HttpClient, (http) => {
    const post = (
      execute: (
        request: HttpClientRequest.HttpClientRequest
      ) => Effect.Effect<HttpClientResponse.HttpClientResponse, unknown>,
      { token }: Caller,
      path: string,
      body: object
    ) =>
      HttpClientRequest.post(url + path).pipe(
        HttpClientRequest.bearerToken(token),
        HttpClientRequest.bodyJsonUnsafe(body),
        execute,
        Effect.mapError(toFailure),
        Effect.filterOrFail(
          ({ status }) => status >= 200 && status < 300,
          ({ status }) => new BackendRefused({ status, message: `The assistant backend responded with ${status}` })
        )
      )

    const createTurn: Backend["createTurn"] = Effect.fnUntraced(function*(caller, chatId, request) {
      const requestScope = Scope.makeUnsafe()
      let isRead = false
      // Closing it would abort the request, even one that has been read, at the price of an error with a stack.
      yield* Effect.addFinalizer((exit) => isRead ? Effect.void : Scope.close(requestScope, exit))
      const execute = (request: HttpClientRequest.HttpClientRequest) =>
        Effect.provideService(HttpClient.withScope(http).execute(request), Scope.Scope, requestScope)
      const response = yield* post(execute, caller, `/chats/${encodeURIComponent(chatId)}/turns`, request)
      if (!BoundedBody.isSmall(response)) return streamOf(response)
      const lines = yield* linesOf(response)
      isRead = true
      return lines
    })

    return {
      createChat: (caller, request) =>
        post(http.execute, caller, "/chats", request).pipe(
          Effect.flatMap((response) => Effect.mapError(readChat(response), toFailure)),
          within(chatTimeout),
          Effect.map(({ id }) => id)
        ),
      createTurn,
      transcribe: (caller, file) =>
        post(http.execute, caller, "/transcriptions", { file }).pipe(
          Effect.flatMap((response) => Effect.mapError(readTranscription(response), toFailure)),
          within(transcriptionTimeout),
          Effect.map(({ text }) => text)
        )
    }
  })
