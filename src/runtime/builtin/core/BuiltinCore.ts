/**
 * The built-in processing core, a separate system. It communicates with the service and the assistant backend only by the
 * protocols in domain/CoreProtocol.ts and domain/AssistantProtocol.ts. It stores nothing: the service dispatches lost runs
 * again.
 */
import { Cause, Effect, Fiber, FiberMap, Option, type Redacted, Schedule, Schema, Scope, Stream } from "effect"
import { SecureRandom } from "effect/crypto"
import { Ndjson } from "effect/encoding"
import {
  HttpClient,
  type HttpClientError,
  HttpClientRequest,
  HttpClientResponse,
  HttpRouter,
  HttpServerResponse
} from "effect/http"
import { Chat, Transcription, TurnLine } from "../../../domain/AssistantProtocol.ts"
import * as Backoff from "../../../domain/Backoff.ts"
import { type CoreEvent, FailureCode, StartRun } from "../../../domain/CoreProtocol.ts"
import { JsonObject } from "../../../domain/OpaqueJson.ts"
import { VoiceItem } from "../../../domain/TaskRequest.ts"
import { isOneOf } from "../../../http/handlers/Authorization.ts"
import * as BoundedBody from "../BoundedBody.ts"
import * as HttpHelpers from "../HttpHelpers.ts"

export interface CoreOptions {
  readonly backendUrl: string
  /** Sent with every event. */
  readonly internalToken: Redacted.Redacted
  /** Required with every call; undefined rejects every call. */
  readonly token: Redacted.Redacted | undefined
  /** The only origin to which events and their token are sent; undefined allows any port of loopback. */
  readonly eventsOrigin: string | undefined
}

/** A run failed, with the protocol's failure code; the message is safe to show to the client. */
class RunFailed extends Schema.TaggedError<RunFailed>()("RunFailed", {
  code: FailureCode,
  message: Schema.NullOr(Schema.String)
}) {}

const isLoopback = ({ hostname }: URL) => /^(localhost|127\.\d+\.\d+\.\d+|\[::1\])$/.test(hostname)

/** Whether events of a run may be sent to `url`. Any other receiver would obtain the internal token. */
const isEventsUrl = (url: string, origin: string | undefined) => {
  const parsed = URL.parse(url)
  return parsed !== null && /^https?:$/.test(parsed.protocol)
    && (origin === undefined ? isLoopback(parsed) : parsed.origin === origin)
}

const failed = (code: FailureCode, message: string | null = null) => new RunFailed({ code, message })

/** The failure for a status with which the assistant backend refused a chat or a turn. */
const refusalOf = (status: number) =>
  failed(status === 404 ? "assistant_not_found" : status === 402 ? "payment_required" : "internal")

/** The failure for a status of a refused transcription, where 404 is a missing recording, not a missing assistant. */
const transcriptionRefusalOf = (status: number) => {
  if (status === 402) return failed("payment_required")
  if (status === 404) return failed("internal", "Voice input is not in storage")
  const problem = status === 501
    ? "cannot be transcribed: no transcription service is configured"
    : "could not be transcribed"
  return failed("internal", `Voice input ${problem}`)
}

/** The state from which a later run resumes: the chat, and the transcript of each voice item. */
const RunState = Schema.Struct({
  chat_id: Chat.fields.id,
  transcriptions: Schema.Array(Schema.Struct({ id: Schema.String, text: Schema.String }))
})
type RunState = typeof RunState.Type

const isVoice = Schema.is(VoiceItem)
const isJsonObject = Schema.is(JsonObject)

/** Adds the transcripts to a turn's metadata. */
const withTranscriptions = (turn: JsonObject, { transcriptions }: RunState): JsonObject => {
  const { metadata } = turn
  return transcriptions.length === 0
    ? turn
    : { ...turn, metadata: { ...(isJsonObject(metadata) ? metadata : {}), transcriptions } }
}

/** Replaces voice items by their transcripts. */
const voiceToText = (input: StartRun["input"], { transcriptions }: RunState) => {
  const texts = new Map(transcriptions.map(({ id, text }) => [id, text]))
  return input.map((item) => isVoice(item) ? { type: "text", text: texts.get(item.voice.id) ?? "" } : item)
}

type Unaddressed<Event> = Event extends unknown ? Omit<Event, "task_id" | "run_id" | "event_id"> : never

type LineEvent = Exclude<Unaddressed<CoreEvent>, { readonly type: "processing" }>

const toEvent = (received: TurnLine, state: RunState): LineEvent => {
  const line = received.turn === undefined
    ? received
    : { ...received, turn: withTranscriptions(received.turn, state) }
  switch (line.type) {
    case "progress":
    case "completed":
      return line
    case "tool_calls":
      return { ...line, type: "interrupted", state }
    case "failed":
      return { ...line, code: line.code ?? "internal" }
  }
}

const firstDelay = "100 millis"
const eventRetry = Schedule.jittered(Backoff.schedule(firstDelay, "2 seconds"))

/** Maximum bytes of one line of a turn. */
const maxLineBytes = 64 * 1024 * 1024

/** Maximum bytes of a response other than a turn. */
const maxAnswerBytes = 1024 * 1024

const readRun = HttpHelpers.read(StartRun)
const readChat = BoundedBody.jsonReader(Chat, maxAnswerBytes)
const readTranscription = BoundedBody.jsonReader(Transcription, maxAnswerBytes)
const decodeLine = Schema.decodeUnknownEffect(Schema.fromJsonString(TurnLine))

/** Delivers one event. Returns true when the service no longer accepts events of the run. */
type Send = (run: StartRun, event: Unaddressed<CoreEvent>) => Effect.Effect<boolean>

/** Delivers events with unlimited retries. */
const makeSend = Effect.fnUntraced(function*({ internalToken }: CoreOptions) {
  const http = yield* HttpClient.HttpClient
  const random = yield* SecureRandom.SecureRandom
  const send: Send = Effect.fnUntraced(function*({ events_url, run_id, task_id }, event) {
    const request = HttpClientRequest.post(events_url).pipe(
      HttpClientRequest.bearerToken(internalToken),
      HttpClientRequest.bodyJsonUnsafe({ ...event, task_id, run_id, event_id: yield* random.uuidV4() })
    )
    const attempt = http.execute(request).pipe(
      // Only the status is used; reading the body frees the connection for reuse.
      Effect.tap((response) => Effect.ignore(BoundedBody.readBytes(response, maxAnswerBytes))),
      Effect.flatMap(HttpClientResponse.filterStatus((status) => status < 500 && status !== 429)),
      Effect.timeout("10 seconds")
    )
    // A schedule for each event would cost more than its JSON.
    const { status } = yield* Effect.catch(
      attempt,
      () => attempt.pipe(Effect.retry(eventRetry), Effect.delay(firstDelay), Effect.orDie)
    )
    if (status === 401) {
      yield* Effect.logError(`${events_url} refuses this core: INTERNAL_TOKENS has to be the same here and there`)
    }
    return status >= 400
  })
  return send
})

type SendLine = (line: TurnLine) => Effect.Effect<boolean>

/** Sends the lines of a turn that has arrived whole. Returns false when there was no last line. */
const sendWhole = Effect.fnUntraced(function*(bytes: Buffer, sendLine: SendLine) {
  for (const text of bytes.toString("utf8").split(/\r?\n/)) {
    if (text === "") continue
    const line = yield* decodeLine(text)
    const isUnwanted = yield* sendLine(line)
    if (isUnwanted || line.type !== "progress") return true
  }
  return false
})

/** Sends the lines of a turn as they arrive. Returns false when they ended without a last line. */
const sendStreamed = <E>(lines: Stream.Stream<TurnLine, E>, sendLine: SendLine) =>
  lines.pipe(
    Stream.takeUntil(({ type }) => type !== "progress"),
    // When the service is slow, only the latest progress is sent. The last line is never dropped, because no line follows it.
    Stream.buffer({ capacity: 1, strategy: "sliding" }),
    Stream.mapEffect((line) => Effect.map(sendLine(line), (isUnwanted) => isUnwanted || line.type !== "progress")),
    Stream.takeUntil((isLast) => isLast),
    Stream.runLast,
    Effect.map((isOver) => Option.contains(isOver, true))
  )

/** One run, from its chat to the last line of its turn. Ends early when the service no longer accepts its events. */
const makeProcess = Effect.fnUntraced(function*({ backendUrl }: CoreOptions, send: Send) {
  const http = yield* HttpClient.HttpClient

  const callBy =
    <R>({ execute }: HttpClient.HttpClient.With<HttpClientError.HttpClientError, R>) =>
    (run: StartRun, path: string, body: object, toFailure = refusalOf) =>
      HttpClientRequest.post(backendUrl + path).pipe(
        HttpClientRequest.bearerToken(run.user_token),
        HttpClientRequest.bodyJsonUnsafe(body),
        execute,
        Effect.mapError(() => failed("internal")),
        Effect.filterOrFail(({ status }) => status >= 200 && status < 300, ({ status }) => toFailure(status))
      )
  const call = callBy(http)
  const callInScope = callBy(HttpClient.withScope(http))

  const begin = Effect.fnUntraced(function*(run: StartRun) {
    if (run.resume !== null) return yield* Schema.decodeUnknownEffect(RunState)(run.resume.state)
    const { assistant_id, image_generator_id, llm_model_id } = run
    const response = yield* call(run, "/chats", { assistant_id, image_generator_id, llm_model_id })
    return { chat_id: (yield* readChat(response)).id, transcriptions: [] }
  })

  const transcribe = Effect.fnUntraced(function*(run: StartRun, id: string) {
    const response = yield* call(run, "/transcriptions", { file: { id } }, transcriptionRefusalOf)
    return { id, text: (yield* readTranscription(response)).text }
  })

  return Effect.fnUntraced(function*(run: StartRun) {
    const begun = yield* begin(run)
    let isAnnounced = false
    /** Returns true when the service does not want the run. */
    const announce = Effect.suspend(() => {
      if (isAnnounced) return Effect.succeed(false)
      isAnnounced = true
      return send(run, { type: "processing" })
    })
    const { client_tools, input, resume, turns } = run
    const voices = resume === null ? input.filter(isVoice) : []
    if (voices.length > 0 && (yield* announce)) return
    const transcriptions = yield* Effect.forEach(voices, ({ voice }) => transcribe(run, voice.id))
    const state = resume === null ? { ...begun, transcriptions } : begun
    // A run that is stopped, or not wanted, leaves its response unread, which is then aborted. An abort is an error with a stack: 40 µs.
    const requestScope = Scope.makeUnsafe()
    let isRead = false
    yield* Effect.addFinalizer((exit) => isRead ? Effect.void : Scope.close(requestScope, exit))
    const responding = yield* Effect.forkChild(
      callInScope(run, `/chats/${state.chat_id}/turns`, {
        input: voiceToText(input, state),
        turns,
        client_tools,
        ...(resume === null ? {} : { tool_results: resume.results })
      }).pipe(Effect.provideService(Scope.Scope, requestScope)),
      { startImmediately: true }
    )
    // A turn that arrives immediately needs no event of its own for the acceptance of the run.
    if (responding.pollUnsafe() === undefined && (yield* announce)) return
    const response = yield* Effect.tapError(Fiber.join(responding), () => announce)
    const sendLine = (line: TurnLine) =>
      Effect.suspend(() => {
        const accepted = !isAnnounced && resume === null
        isAnnounced = true
        return send(run, accepted ? { ...toEvent(line, state), accepted } : toEvent(line, state))
      })
    if (BoundedBody.isSmall(response)) {
      const bytes = yield* BoundedBody.readBytes(response, maxLineBytes)
      isRead = true
      const sendAll = Effect.flatMap(sendWhole(bytes, sendLine), (isOver) => isOver ? Effect.void : failed("internal"))
      return yield* Effect.tapError(sendAll, () => announce)
    }
    if (yield* announce) return
    const lines = Stream.pipeThroughChannel(
      response.stream,
      Ndjson.decodeSchema(TurnLine)({ ignoreEmptyLines: true, maxLineBytes })
    )
    if (!(yield* sendStreamed(lines, sendLine))) return yield* failed("internal")
  }, Effect.scoped)
})

export const layer = (options: CoreOptions) =>
  HttpRouter.use(Effect.fnUntraced(function*(router) {
    const send = yield* makeSend(options)
    const process = yield* makeProcess(options, send)
    const runs = yield* FiberMap.make<string>()

    const supervise = (run: StartRun) =>
      process(run).pipe(
        Effect.catchTag("RunFailed", ({ code, message }) => send(run, { type: "failed", code, message })),
        Effect.catchCauseIf(
          (cause) => !Cause.hasInterruptsOnly(cause),
          (cause) =>
            Effect.andThen(
              Effect.logError("a run failed", cause),
              send(run, { type: "failed", code: "internal", message: null })
            )
        ),
        Effect.annotateLogs({ taskId: run.task_id, runId: run.run_id }),
        Effect.asVoid
      )

    const start = Effect.gen(function*() {
      const run = yield* readRun
      if (!isEventsUrl(run.events_url, options.eventsOrigin)) {
        const message = "Must be a URL of the service, as the core knows it by PUBLIC_URL"
        return HttpHelpers.respond(422, { message, errors: { events_url: [message] } })
      }
      yield* FiberMap.run(runs, run.run_id, supervise(run), { onlyIfMissing: true })
      return HttpServerResponse.empty({ status: 202 })
    })

    const stop = Effect.gen(function*() {
      const { runId = "" } = yield* HttpRouter.params
      const isRunning = yield* FiberMap.has(runs, runId)
      yield* FiberMap.remove(runs, runId)
      return HttpServerResponse.empty({ status: isRunning ? 202 : 404 })
    })

    const tokens = options.token === undefined ? [] : [options.token]
    const handler = HttpHelpers.handler((given) => Effect.sync(() => isOneOf(tokens, given) ? true : undefined))
    yield* router.add("POST", "/runs", handler(() => start))
    yield* router.add("POST", "/runs/:runId/stop", handler(() => stop))
  }))
