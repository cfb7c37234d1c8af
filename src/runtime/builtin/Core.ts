/**
 * The built-in processing core: another system played by us. It knows the service and the assistant backend only by the
 * wires of CONTRACT 4 and 5, and keeps no state that outlives it: the service offers a lost run again.
 */
import { Cause, Effect, FiberMap, type Redacted, Schedule, Schema, Stream } from "effect"
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
import { Chat, TurnLine } from "../../domain/AssistantProtocol.ts"
import { type CoreEvent, type FailureCode, StartRun } from "../../domain/CoreProtocol.ts"

export interface CoreOptions {
  readonly backendUrl: string
  /** Sent with every event. */
  readonly internalToken: Redacted.Redacted
}

/** How the assistant backend failed, as a code of the wire. */
class BackendFailure extends Schema.TaggedError<BackendFailure>()("BackendFailure", {
  code: Schema.Literals(["assistant_not_found", "payment_required", "internal"]),
  message: Schema.NullOr(Schema.String)
}) {}

/** The service did not take an event, and may the next time. */
class EventNotTaken extends Schema.TaggedError<EventNotTaken>()("EventNotTaken", {}) {}

const codeOf = (status: number): FailureCode & BackendFailure["code"] =>
  status === 404 ? "assistant_not_found" : status === 402 ? "payment_required" : "internal"

const chatState = Schema.Struct({ chat_id: Schema.Union([Schema.String, Schema.Int]) })

const decodeLine = Schema.decodeUnknownEffect(TurnLine)

type Unaddressed<Event> = Event extends unknown ? Omit<Event, "task_id" | "run_id" | "event_id"> : never

const eventRetry = Schedule.min([Schedule.exponential("100 millis"), Schedule.spaced("2 seconds")]).pipe(
  Schedule.jittered
)

export const layer = ({ backendUrl, internalToken }: CoreOptions) =>
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
          Effect.mapError(() => new BackendFailure({ code: "internal", message: null })),
          Effect.filterOrFail(
            ({ status }) => status >= 200 && status < 300,
            ({ status }) => new BackendFailure({ code: codeOf(status), message: null })
          )
        )

      const openChat = Effect.fnUntraced(function*(run: StartRun) {
        if (run.resume !== null) return (yield* Schema.decodeUnknownEffect(chatState)(run.resume.state)).chat_id
        const { assistant_id, image_generator_id, llm_model_id } = run
        const response = yield* call(run, "/chats", { assistant_id, image_generator_id, llm_model_id })
        return (yield* HttpClientResponse.schemaBodyJson(Chat)(response)).id
      })

      const toEvent = (line: TurnLine, chat_id: string | number): Unaddressed<CoreEvent> => {
        switch (line.type) {
          case "progress":
          case "completed":
            return { type: line.type, turn: line.turn }
          case "tool_calls":
            return { type: "interrupted", tool_calls: line.tool_calls, state: { chat_id }, turn: line.turn ?? null }
          case "failed":
            return { type: "failed", code: "internal", message: line.message ?? null }
        }
      }

      /** One run, from the chat to the last line of its turn; it ends early when the service no longer wants it. */
      const process = Effect.fnUntraced(function*(run: StartRun) {
        const chatId = yield* openChat(run)
        if (yield* send(run, { type: "processing" })) return
        const { client_tools, input, resume, turns } = run
        const response = yield* call(run, `/chats/${chatId}/turns`, {
          input,
          turns,
          client_tools,
          ...(resume === null ? {} : { tool_results: resume.results })
        })
        const lines = response.stream.pipe(
          Stream.pipeThroughChannel(Ndjson.decode({ ignoreEmptyLines: true })),
          Stream.mapEffect((line) => decodeLine(line))
        )
        const last = yield* lines.pipe(
          Stream.mapEffect((line) => Effect.map(send(run, toEvent(line, chatId)), (unwanted) => ({ line, unwanted }))),
          Stream.takeUntil(({ line, unwanted }) => unwanted || line.type !== "progress"),
          Stream.runLast
        )
        const isEnded = last._tag === "Some" && (last.value.unwanted || last.value.line.type !== "progress")
        if (!isEnded) return yield* new BackendFailure({ code: "internal", message: null })
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

      yield* router.add(
        "POST",
        "/runs",
        HttpServerRequest.schemaBodyJson(StartRun).pipe(
          Effect.flatMap((run) => FiberMap.run(runs, run.run_id, supervise(run), { onlyIfMissing: true })),
          Effect.as(HttpServerResponse.empty({ status: 202 })),
          Effect.catchTags({
            SchemaError: ({ message }) => Effect.succeed(HttpServerResponse.jsonUnsafe({ message }, { status: 422 })),
            HttpServerError: () =>
              Effect.succeed(HttpServerResponse.jsonUnsafe({ message: "unreadable body" }, { status: 400 }))
          })
        )
      )

      yield* router.add(
        "POST",
        "/runs/:runId/stop",
        Effect.gen(function*() {
          const { runId = "" } = yield* HttpRouter.params
          const isRunning = yield* FiberMap.has(runs, runId)
          yield* FiberMap.remove(runs, runId)
          return HttpServerResponse.empty({ status: isRunning ? 202 : 404 })
        })
      )
    })
  )
