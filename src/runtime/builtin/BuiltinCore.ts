/**
 * The built-in processing core: another system played by us. It knows the service and the assistant backend only by the
 * wires of CONTRACT 4 and 5, and keeps no state that outlives it: the service offers a lost run again.
 */
import { Cause, Effect, FiberMap, Predicate, Redacted, Schedule, Schema, Stream } from "effect"
import { SecureRandom } from "effect/crypto"
import { Ndjson } from "effect/encoding"
import {
  HttpClient,
  HttpClientRequest,
  HttpClientResponse,
  HttpRouter,
  HttpServerRequest,
  HttpServerResponse
} from "effect/http"
import { createHash, timingSafeEqual } from "node:crypto"
import { Chat, Transcription, TurnLine } from "../../domain/AssistantProtocol.ts"
import { type CoreEvent, type FailureCode, StartRun } from "../../domain/CoreProtocol.ts"
import type { JsonObject } from "../../domain/OpaqueJson.ts"
import { VoiceItem } from "../../domain/TaskRequest.ts"
import * as JsonBody from "./JsonBody.ts"

export interface CoreOptions {
  readonly backendUrl: string
  /** Sent with every event. */
  readonly internalToken: Redacted.Redacted
  /** Expected with every call, when there is one. */
  readonly token: Redacted.Redacted | undefined
}

/** How the assistant backend failed, as a code of the wire. */
class BackendFailure extends Schema.TaggedError<BackendFailure>()("BackendFailure", {
  code: Schema.Literals(["assistant_not_found", "payment_required", "internal"]),
  message: Schema.NullOr(Schema.String)
}) {}

/** The service did not take an event, and may the next time. */
class EventNotTaken extends Schema.TaggedError<EventNotTaken>()("EventNotTaken", {}) {}

const digestOf = (text: string) => createHash("sha256").update(text).digest()

const codeOf = (status: number): FailureCode & BackendFailure["code"] =>
  status === 404 ? "assistant_not_found" : status === 402 ? "payment_required" : "internal"

const failed = (code: BackendFailure["code"], message: string | null = null) => new BackendFailure({ code, message })

/** What a run goes on from: its chat, and what was heard in each voice item. */
const RunState = Schema.Struct({
  chat_id: Schema.Union([Schema.String, Schema.Int]),
  transcriptions: Schema.Array(Schema.Struct({ id: Schema.String, text: Schema.String })).pipe(
    Schema.withDecodingDefault(Effect.succeed([]))
  )
})
type RunState = typeof RunState.Type

/** Why there is no transcript, in words that are safe to show. */
const unheard = (status: number): string =>
  status === 501
    ? "Voice input cannot be transcribed: no transcription service is configured"
    : status === 404
    ? "Voice input is not in storage"
    : "Voice input could not be transcribed"

const isVoice = Schema.is(VoiceItem)

/** A turn that also tells what was heard. */
const withTranscriptions = (turn: JsonObject, { transcriptions }: RunState): JsonObject => {
  const { metadata } = turn
  return transcriptions.length === 0
    ? turn
    : { ...turn, metadata: { ...(Predicate.isObject(metadata) ? metadata as JsonObject : {}), transcriptions } }
}

/** Voice becomes text before a turn is asked for (SPEC "Input items"). */
const heard = (input: StartRun["input"], { transcriptions }: RunState) => {
  const texts = new Map(transcriptions.map(({ id, text }) => [id, text]))
  return input.map((item) => isVoice(item) ? { type: "text", text: texts.get(item.voice.id) ?? "" } : item)
}

const decodeLine = Schema.decodeUnknownEffect(TurnLine)

type Unaddressed<Event> = Event extends unknown ? Omit<Event, "task_id" | "run_id" | "event_id"> : never

const eventRetry = Schedule.min([Schedule.exponential("100 millis"), Schedule.spaced("2 seconds")]).pipe(
  Schedule.jittered
)

export const layer = ({ backendUrl, internalToken, token }: CoreOptions) =>
  HttpRouter.use((router) =>
    Effect.gen(function*() {
      const http = yield* HttpClient.HttpClient
      const random = yield* SecureRandom.SecureRandom
      const runs = yield* FiberMap.make<string>()

      /** Delivers one event, for as long as it takes. True when the service no longer wants the run. */
      const send = Effect.fnUntraced(function*(run: StartRun, event: Unaddressed<CoreEvent>) {
        const body = { ...event, task_id: run.task_id, run_id: run.run_id, event_id: yield* random.uuidV4() }
        const request = HttpClientRequest.post(run.events_url).pipe(
          HttpClientRequest.bearerToken(internalToken),
          HttpClientRequest.bodyJsonUnsafe(body)
        )
        return yield* http.execute(request).pipe(
          Effect.tap((response) => response.text),
          Effect.timeout("10 seconds"),
          Effect.mapError(() => new EventNotTaken({})),
          Effect.filterOrFail(({ status }) => status < 500 && status !== 429, () => new EventNotTaken({})),
          Effect.retry(eventRetry),
          Effect.map(({ status }) => status >= 400)
        )
      })

      const call = (run: StartRun, path: string, body: object) =>
        HttpClientRequest.post(backendUrl + path).pipe(
          HttpClientRequest.bearerToken(run.user_token),
          HttpClientRequest.bodyJsonUnsafe(body),
          http.execute,
          Effect.mapError(() => failed("internal")),
          Effect.filterOrFail(
            ({ status }) => status >= 200 && status < 300,
            ({ status }) => failed(codeOf(status), path === "/transcriptions" ? unheard(status) : null)
          )
        )

      const transcribe = Effect.fnUntraced(
        function*(run: StartRun, id: string) {
          const response = yield* call(run, "/transcriptions", { file: { id } })
          return { id, text: (yield* HttpClientResponse.schemaBodyJson(Transcription)(response)).text }
        },
        Effect.catchTags({
          // A missing recording does not make the assistant unavailable.
          BackendFailure: ({ code, message }) =>
            Effect.fail(failed(code === "payment_required" ? code : "internal", message))
        })
      )

      const begin = Effect.fnUntraced(function*(run: StartRun) {
        if (run.resume !== null) return yield* Schema.decodeUnknownEffect(RunState)(run.resume.state)
        const { assistant_id, image_generator_id, llm_model_id } = run
        const response = yield* call(run, "/chats", { assistant_id, image_generator_id, llm_model_id })
        return { chat_id: (yield* HttpClientResponse.schemaBodyJson(Chat)(response)).id, transcriptions: [] }
      })

      const toEvent = (line: TurnLine, state: RunState): Unaddressed<CoreEvent> => {
        const turnOf = ({ turn }: { readonly turn?: JsonObject | undefined }) =>
          turn === undefined ? null : withTranscriptions(turn, state)
        switch (line.type) {
          case "progress":
          case "completed":
            return { type: line.type, turn: withTranscriptions(line.turn, state) }
          case "tool_calls":
            return { type: "interrupted", tool_calls: line.tool_calls, state, turn: turnOf(line) }
          case "failed":
            return { type: "failed", code: line.code ?? "internal", message: line.message ?? null, turn: turnOf(line) }
        }
      }

      /** One run, from the chat to the last line of its turn; it ends early when the service no longer wants it. */
      const process = Effect.fnUntraced(function*(run: StartRun) {
        const begun = yield* begin(run)
        if (yield* send(run, { type: "processing" })) return
        const { client_tools, input, resume, turns } = run
        const voices = resume === null ? input.filter(isVoice) : []
        const transcriptions = yield* Effect.forEach(voices, ({ voice }) => transcribe(run, voice.id))
        const state = resume === null ? { ...begun, transcriptions } : begun
        const response = yield* call(run, `/chats/${state.chat_id}/turns`, {
          input: heard(input, state),
          turns,
          client_tools,
          ...(resume === null ? {} : { tool_results: resume.results })
        })
        const lines = response.stream.pipe(
          Stream.pipeThroughChannel(Ndjson.decode({ ignoreEmptyLines: true })),
          Stream.mapEffect((line) => decodeLine(line)),
          // Of progress that the service is too slow for only the last is sent; the last line of all is never lost.
          Stream.buffer({ capacity: 1, strategy: "sliding" })
        )
        const last = yield* lines.pipe(
          Stream.mapEffect((line) => Effect.map(send(run, toEvent(line, state)), (unwanted) => ({ line, unwanted }))),
          Stream.takeUntil(({ line, unwanted }) => unwanted || line.type !== "progress"),
          Stream.runLast
        )
        const isEnded = last._tag === "Some" && (last.value.unwanted || last.value.line.type !== "progress")
        if (!isEnded) return yield* failed("internal")
      })

      const supervise = (run: StartRun) =>
        process(run).pipe(
          Effect.catchTag("BackendFailure", ({ code, message }) => send(run, { type: "failed", code, message })),
          Effect.catchCause((cause) =>
            Cause.hasInterruptsOnly(cause)
              ? Effect.interrupt
              : Effect.andThen(
                Effect.logError("a run failed", cause),
                send(run, { type: "failed", code: "internal", message: null })
              )
          ),
          Effect.annotateLogs({ taskId: run.task_id, runId: run.run_id }),
          Effect.asVoid
        )

      const expected = token === undefined ? undefined : digestOf(`Bearer ${Redacted.value(token)}`)
      const isAllowed = (authorization = "") =>
        expected === undefined || timingSafeEqual(digestOf(authorization), expected)

      const allowed = <E, R>(handler: Effect.Effect<HttpServerResponse.HttpServerResponse, E, R>) =>
        Effect.flatMap(HttpServerRequest.HttpServerRequest, ({ headers }) =>
          isAllowed(headers["authorization"])
            ? handler
            : Effect.succeed(JsonBody.answer(401, { message: "No token." })))

      yield* router.add(
        "POST",
        "/runs",
        allowed(
          JsonBody.read(StartRun).pipe(
            Effect.flatMap((run) => FiberMap.run(runs, run.run_id, supervise(run), { onlyIfMissing: true })),
            Effect.as(HttpServerResponse.empty({ status: 202 })),
            Effect.catchTags(JsonBody.refusals)
          )
        )
      )

      yield* router.add(
        "POST",
        "/runs/:runId/stop",
        allowed(Effect.gen(function*() {
          const { runId = "" } = yield* HttpRouter.params
          const isRunning = yield* FiberMap.has(runs, runId)
          yield* FiberMap.remove(runs, runId)
          return HttpServerResponse.empty({ status: isRunning ? 202 : 404 })
        }))
      )
    })
  )
