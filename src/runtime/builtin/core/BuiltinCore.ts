/**
 * The built-in processing core, a separate system. What it needs of the service and of the assistant backend it gets as
 * functions: calls in the same process, or over HTTP when it is served alone (`CoreRoutes`). It stores nothing: the service
 * dispatches lost runs again.
 */
import { Cause, Duration, Effect, Fiber, FiberMap, Option, Schedule, Schema, Stream } from "effect"
import { SecureRandom } from "effect/crypto"
import * as Backoff from "../../../domain/Backoff.ts"
import { type CoreEvent, FailureCode, isFinal, type StartRun, type Unaddressed } from "../../../domain/CoreProtocol.ts"
import { isJsonObject, type JsonObject } from "../../../domain/json/OpaqueJson.ts"
import { VoiceItem } from "../../../domain/TaskRequest.ts"
import { outputText, type Turn } from "../../../domain/Turn.ts"
import { Chat, type TurnLine } from "../AssistantProtocol.ts"
import type { ArrivedLine, Backend, BackendRefused, Caller, TextLine } from "../Backend.ts"
import * as SignsOfLife from "./SignsOfLife.ts"

/** A run as the service starts it. */
export type Run = Omit<StartRun, "deadline_at" | "events_url">

/**
 * The service's answer to an event: it recorded it, also without text that does not fit to what it has, it no longer wants the run, or it
 * refuses the event itself.
 */
export type Receipt = "accepted" | "gap" | "unwanted" | "invalid"

/** The receipt of an event by the index of the append that the service expects, if it says one. */
export const receiptOfNext = (event: CoreEvent, next: unknown): Receipt => {
  if (event.type !== "progress" || event.append == null) return "accepted"
  return next === event.append.index + 1 ? "accepted" : "gap"
}

/** An event did not reach the service, or the service could not record it. */
export class NotReported extends Schema.TaggedError<NotReported>()("NotReported", { cause: Schema.Defect() }) {}

/** Reports an event to the service. After a failure it is reported again. */
export type Report<R extends Run> = (run: R, event: CoreEvent) => Effect.Effect<Receipt, NotReported>

/** A run failed, with the protocol's failure code; the message is safe to show to the client. */
class RunFailed extends Schema.TaggedError<RunFailed>()("RunFailed", {
  code: FailureCode,
  message: Schema.NullOr(Schema.String)
}) {}

const failed = (code: FailureCode, message: string | null = null) => new RunFailed({ code, message })

/** The failure when the assistant backend refused a chat or a turn. */
const refusalOf = ({ status }: BackendRefused) =>
  failed(status === 404 ? "assistant_not_found" : status === 402 ? "payment_required" : "internal")

/** The failure when it refused a transcription: then 404 is a missing recording, not a missing assistant. */
const transcriptionRefusalOf = ({ status }: BackendRefused) => {
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

const isVoice = Schema.is(VoiceItem) as <I>(value: I) => value is I & typeof VoiceItem.Encoded

/** Adds the transcripts to a turn's metadata. */
const withTranscriptions = (turn: JsonObject, { transcriptions }: RunState): JsonObject => {
  const { metadata } = turn
  return transcriptions.length === 0
    ? turn
    : { ...turn, metadata: { ...(isJsonObject(metadata) ? metadata : {}), transcriptions } }
}

/** Replaces voice items by their transcripts. */
const voiceToText = (input: Run["input"], { transcriptions }: RunState) => {
  const texts = new Map(transcriptions.map(({ id, text }) => [id, text]))
  return input.map((item) => isVoice(item) ? { type: "text", text: texts.get(item.voice.id) ?? "" } : item)
}

type LineEvent = Exclude<Unaddressed, { readonly type: "processing" }>

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

/** Reports events with unlimited retries. */
const makeSend = <R extends Run>(
  report: Report<R>,
  random: typeof SecureRandom.SecureRandom.Service,
  signs: SignsOfLife.SignsOfLife<R>,
  worked: (runId: string) => void
) =>
  Effect.fnUntraced(function*(run: R, event: Unaddressed) {
    const { run_id, task_id } = run
    // Before the report: the service sends the next run when it has recorded this one's end.
    if (isFinal(event.type)) worked(run_id)
    const attempt = report(run, { ...event, task_id, run_id, event_id: yield* random.uuidV4() })
    // A schedule for each event would cost more than its JSON.
    const receipt = yield* Effect.catch(
      attempt,
      () => attempt.pipe(Effect.retry(eventRetry), Effect.delay(firstDelay), Effect.orDie)
    )
    if (receipt === "accepted") signs.note(run, event.type)
    return receipt === "invalid" ? yield* failed("internal") : receipt
  })

/** UTF-16 units of one append, which have at most 64 KiB as UTF-8. */
const appendLength = 21_000

/** The text of a run that the service has: additions go as appends, and after a gap with the next turn. */
const makeText = () => {
  let sent = ""
  let index = 0
  let hasGap = false
  return {
    /** The event of the next part of a text; undefined if there is none. */
    next: (text: string): Unaddressed | undefined => {
      if (hasGap || text.length <= sent.length || !text.startsWith(sent)) return undefined
      const part = text.slice(sent.length, sent.length + appendLength)
      sent += part
      return { type: "progress", append: { index: index++, text: part } }
    },
    /** A turn, with the number of the appends that it has. */
    counted: (event: LineEvent): LineEvent => {
      if (event.type !== "progress" || event.turn == null) return event
      // The backend's turn: `outputText` skips what is none.
      sent = outputText({ turn: event.turn as Turn })
      hasGap = false
      return index === 0 ? event : { ...event, next_append: index }
    },
    gap: () => {
      hasGap = true
    }
  }
}

type SendLine<Line = TurnLine> = (line: Line) => Effect.Effect<boolean, RunFailed>

/** Sends the lines of a turn that has arrived whole. Returns false when there was no last line. */
const sendWhole = Effect.fnUntraced(function*(lines: ReadonlyArray<ArrivedLine>, sendLine: SendLine) {
  for (const arrived of lines) {
    const line = yield* arrived
    const isUnwanted = yield* sendLine(line)
    if (isUnwanted || line.type !== "progress") return true
  }
  return false
})

/** Sends the lines of a turn as they arrive. Returns false when they ended without a last line. */
const sendStreamed = <E>(lines: Stream.Stream<TurnLine | TextLine, E>, sendLine: SendLine<TurnLine | TextLine>) =>
  lines.pipe(
    Stream.mapEffect((line) =>
      Effect.map(sendLine(line), (isUnwanted) => isUnwanted || (line.type !== "progress" && line.type !== "text"))
    ),
    Stream.takeUntil((isLast) => isLast),
    Stream.runLast,
    Effect.map((isOver) => Option.contains(isOver, true))
  )

const decodeState = Schema.decodeUnknownEffect(RunState)

/** One run, from its chat to the last line of its turn. Ends early when the service no longer accepts its events. */
const makeProcess = <R extends Run>(
  backend: Backend,
  sendEvent: (run: R, event: Unaddressed) => Effect.Effect<Receipt, RunFailed>
) => {
  /** The result is true when the service no longer accepts events of the run. */
  const send = (run: R, event: Unaddressed) => Effect.map(sendEvent(run, event), (receipt) => receipt === "unwanted")

  const sendText = Effect.fnUntraced(function*(run: R, text: ReturnType<typeof makeText>, whole: string) {
    for (let event = text.next(whole); event !== undefined; event = text.next(whole)) {
      const receipt = yield* sendEvent(run, event)
      if (receipt === "unwanted") return true
      if (receipt === "gap") text.gap()
    }
    return false
  })

  const begin = Effect.fnUntraced(function*(run: R, caller: Caller) {
    if (run.resume !== null) return yield* decodeState(run.resume.state)
    const { assistant_id, image_generator_id, llm_model_id } = run
    const created = backend.createChat(caller, { assistant_id, image_generator_id, llm_model_id })
    const chat_id = yield* Effect.catchTag(created, "BackendRefused", refusalOf)
    return { chat_id, transcriptions: [] }
  })

  const transcribe = Effect.fnUntraced(function*(caller: Caller, file: { readonly id: string }) {
    return {
      id: file.id,
      text: yield* Effect.catchTag(backend.transcribe(caller, file), "BackendRefused", transcriptionRefusalOf)
    }
  })

  return Effect.fnUntraced(function*(run: R) {
    const caller = { sub: run.user.sub, token: run.user_token }
    const begun = yield* begin(run, caller)
    let isAnnounced = false
    /** Returns true when the service does not want the run. */
    const announce = Effect.suspend(() => {
      if (isAnnounced) return Effect.succeed(false)
      isAnnounced = true
      return send(run, { type: "processing" })
    })
    const { client_tools, input, options, resume, turns } = run
    const voices = resume === null ? input.filter(isVoice) : []
    if (voices.length > 0 && (yield* announce)) return
    const transcriptions = yield* Effect.forEach(voices, ({ voice }) => transcribe(caller, voice))
    const state = resume === null ? { ...begun, transcriptions } : begun
    const responding = yield* Effect.forkChild(
      backend.createTurn(caller, state.chat_id, {
        input: voiceToText(input, state),
        turns,
        client_tools,
        ...(resume === null ? {} : { tool_results: resume.results }),
        ...(options === undefined ? {} : { options })
      }).pipe(Effect.catchTag("BackendRefused", refusalOf)),
      { startImmediately: true }
    )
    // A turn that arrives immediately needs no event of its own for the acceptance of the run.
    if (responding.pollUnsafe() === undefined && (yield* announce)) return
    const lines = yield* Effect.tapError(Fiber.join(responding), () => announce)
    const text = makeText()
    const sendLine = (line: TurnLine | TextLine) => {
      if (line.type === "text") return sendText(run, text, line.text)
      const event = text.counted(toEvent(line, state))
      return Effect.map(
        send(run, isAnnounced || resume !== null ? event : { ...event, accepted: true }),
        (isUnwanted) => {
          isAnnounced = true
          return isUnwanted
        }
      )
    }
    if (Stream.isStream(lines)) {
      if (yield* announce) return
      return (yield* sendStreamed(lines, sendLine)) || (yield* failed("internal"))
    }
    const isOver = yield* Effect.tapError(sendWhole(lines, sendLine), () => announce)
    if (!isOver) {
      yield* announce
      return yield* failed("internal")
    }
  }, Effect.scoped)
}

export interface BuiltinCore<R extends Run> {
  /** Starts a run, unless it has been started already. Returns false, and takes nothing, when `maxRuns` others are at work. */
  readonly start: (run: R) => Effect.Effect<boolean>
  /** Stops a run. Returns false when there is none. */
  readonly stop: (runId: string) => Effect.Effect<boolean>
}

/** When a core without room is asked again, at the latest. */
export const retryAfter = Duration.seconds(1)

/** Runs end when the scope closes. */
export const make = Effect.fnUntraced(function*<R extends Run>(
  { backend, maxRuns, report }: { readonly backend: Backend; readonly maxRuns: number; readonly report: Report<R> }
) {
  const random = yield* SecureRandom.SecureRandom
  const runs = yield* FiberMap.make<string>()
  /** The runs that have not come to their final event. */
  const working = new Set<string>()
  const signs = yield* SignsOfLife.make({
    report: (run: R, event_id) =>
      Effect.map(
        report(run, { type: "progress", task_id: run.task_id, run_id: run.run_id, event_id }),
        (receipt) => receipt === "accepted"
      ),
    isRunning: (runId) => FiberMap.hasUnsafe(runs, runId),
    stop: (runId) => FiberMap.remove(runs, runId)
  })
  const send = makeSend(report, random, signs, (runId) => void working.delete(runId))
  const process = makeProcess(backend, send)

  const fail = (run: R, { code, message }: RunFailed) => Effect.ignore(send(run, { type: "failed", code, message }))
  const supervise = (run: R) =>
    process(run).pipe(
      Effect.catchTag("RunFailed", (error) => fail(run, error)),
      Effect.catchCauseIf(
        (cause) => !Cause.hasInterruptsOnly(cause),
        (cause) => Effect.andThen(Effect.logError("a run failed", cause), fail(run, failed("internal")))
      ),
      Effect.annotateLogs({ taskId: run.task_id, runId: run.run_id }),
      Effect.ensuring(Effect.sync(() => working.delete(run.run_id))),
      Effect.asVoid
    )

  const core: BuiltinCore<R> = {
    start: (run) =>
      Effect.suspend(() => {
        const { run_id } = run
        if (FiberMap.hasUnsafe(runs, run_id)) return Effect.succeed(true)
        if (working.size >= maxRuns) return Effect.succeed(false)
        working.add(run_id)
        return Effect.as(FiberMap.run(runs, run_id, supervise(run), { onlyIfMissing: true }), true)
      }),
    stop: Effect.fnUntraced(function*(runId) {
      const isRunning = yield* FiberMap.has(runs, runId)
      yield* FiberMap.remove(runs, runId)
      return isRunning
    })
  }
  return core
})
