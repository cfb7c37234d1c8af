/** The Effect client of the public interface: the HttpApi client, with waiting, following and tools as the Promise client has them. */
import { Context, Duration, Effect, Layer, Predicate, type Redacted, Schedule, Schema, Stream } from "effect"
import { SecureRandom } from "effect/crypto"
import { Sse } from "effect/encoding"
import { HttpClient, HttpClientRequest, HttpClientResponse } from "effect/http"
import { HttpApiClient } from "effect/http-api"
import { isTerminal } from "../../domain/Task.ts"
import type { CreateTaskBody } from "../../domain/TaskRequest.ts"
import type { ToolCall, ToolResult } from "../../domain/ToolCall.ts"
import { Api } from "../contract/Api.ts"
import { Conflict, Forbidden, NotFound, Unauthorized } from "../contract/Errors.ts"
import type { UploadedFileView } from "../contract/FileSchemas.ts"
import { TaskEventView, type TaskView, type WatchedEventView } from "../contract/TaskSchemas.ts"

export interface TaskServiceOptions {
  /** Base URL of the service, as in `https://tasks.example.com`. */
  readonly baseUrl: string
  /** Finds the user's JWT for each request. */
  readonly token: Effect.Effect<Redacted.Redacted>
}

type Task = typeof TaskView.Type

/** Answers one call of a client tool; a failure is told to the model as an error. */
export type Tool<E, R> = (args: ToolCall["arguments"]) => Effect.Effect<Schema.Json, E, R>

/** Seconds that the service holds an answer, within what proxies allow. */
const waitSeconds = 25

const retrySchedule = Schedule.min([Schedule.exponential("500 millis"), Schedule.spaced("8 seconds")]).pipe(
  Schedule.jittered
)
const reconnectSchedule = Schedule.min([Schedule.exponential("1 second"), Schedule.spaced("30 seconds")]).pipe(
  Schedule.jittered
)

/** Requests that take effect once, however often they are sent. */
const isNamed = ({ method, url }: HttpClientRequest.HttpClientRequest) =>
  method === "POST" && /\/api\/tasks(\/[^/]+\/(tool-results|cancel))?$/.test(url)

const messageOf = (error: unknown): string =>
  Predicate.hasProperty(error, "message") ? String(error.message) : String(error)

const make = Effect.fnUntraced(function*({ baseUrl, token }: TaskServiceOptions) {
  const random = yield* SecureRandom.SecureRandom
  const http = (yield* HttpClient.HttpClient).pipe(
    HttpClient.mapRequest(HttpClientRequest.prependUrl(baseUrl)),
    HttpClient.mapRequestEffect((request) =>
      Effect.map(token, (value) => HttpClientRequest.bearerToken(request, value))
    ),
    HttpClient.mapRequestEffect((request) =>
      isNamed(request) && request.headers["idempotency-key"] === undefined
        ? Effect.map(random.uuidV4(), (key) => HttpClientRequest.setHeader(request, "idempotency-key", key))
        : Effect.succeed(request)
    ),
    HttpClient.retryTransient({ times: 2, schedule: retrySchedule })
  )
  const { files, tasks } = yield* HttpApiClient.makeWith(Api, { httpClient: http })

  /** Waits until the task has ended or is interrupted, however long that takes. */
  const waitFor = (uuid: string) =>
    tasks.get({ params: { uuid }, query: { wait: String(waitSeconds) } }).pipe(
      // At most one a second, should the service not hold its answers.
      Effect.repeat({ schedule: Schedule.fixed("1 second"), until: isSettled })
    )

  const answer =
    <E, R>(tools: Readonly<Record<string, Tool<E, R>>>) => (call: ToolCall): Effect.Effect<ToolResult, never, R> => {
      const tool = Object.hasOwn(tools, call.name) ? tools[call.name] : undefined
      const called: Effect.Effect<Schema.Json, E | string, R> = tool === undefined
        ? Effect.fail(`There is no tool named ${call.name}`)
        : tool(call.arguments)
      return Effect.match(called, {
        onSuccess: (output): ToolResult => ({ tool_call_id: call.id, output }),
        onFailure: (error): ToolResult => ({ tool_call_id: call.id, output: messageOf(error), is_error: true })
      })
    }

  /** Creates a task, answers its tool calls, and succeeds once it has ended, in whichever way: look at its `status`. */
  const run = Effect.fnUntraced(function*<E = never, R = never>(
    payload: CreateTaskBody,
    tools: Readonly<Record<string, Tool<E, R>>> = {}
  ) {
    const { uuid } = yield* tasks.create({ payload })
    while (true) {
      const task: Task = yield* waitFor(uuid)
      if (task.status !== "interrupted") return task
      const results = yield* Effect.forEach(task.pending_tool_calls ?? [], answer(tools), { concurrency: "unbounded" })
      yield* tasks.submitToolResults({ params: { uuid }, payload: { results } }).pipe(
        // The task has moved on: its time was up, or someone else answered or canceled it.
        Effect.catchIf((error) => error instanceof Conflict, () => Effect.void)
      )
    }
  })

  /** Each transition and progress note after a revision; it reconnects by itself and ends with the task. */
  const events = (uuid: string, after = -1) =>
    Stream.suspend(() => {
      let last = after
      let isOver = false
      const leg = Stream.unwrap(Effect.gen(function*() {
        // Whether the task is the caller's is asked in the typed way.
        const task = yield* tasks.get({ params: { uuid }, query: {} })
        const request = HttpClientRequest.get(`/api/tasks/${encodeURIComponent(uuid)}/events`).pipe(
          HttpClientRequest.setHeaders({
            accept: "text/event-stream",
            ...(last < 0 ? {} : { "last-event-id": String(last) })
          })
        )
        const response = yield* Effect.flatMap(http.execute(request), HttpClientResponse.filterStatusOk)
        if (response.status === 204) {
          isOver = isTerminal(task.status)
          return Stream.empty
        }
        return response.stream.pipe(
          Stream.decodeText,
          Stream.map(parseEvents()),
          Stream.flattenIterable,
          Stream.mapEffect(({ data, event }) =>
            Effect.map(
              decodeEvent(data),
              (told) => ({ ...told, event: event as typeof WatchedEventView.Type["event"] })
            )
          ),
          Stream.tap(({ revision, status }) =>
            Effect.sync(() => {
              last = revision
              isOver = isTerminal(status)
            })
          )
        )
      }))
      return leg.pipe(
        Stream.repeat(Schedule.spaced("1 second").pipe(Schedule.while(() => !isOver))),
        Stream.retry(reconnectSchedule.pipe(Schedule.while(({ input }) => !isRefusal(input))))
      )
    })

  /** The link that downloads a file, without a token. */
  const url = (file: { readonly file: typeof UploadedFileView.Type["file"] }) =>
    Effect.map(storageBase, (base) => `${base.url}/${file.file.provider_data.path}`)
  const storageBase = yield* Effect.cachedWithTTL(files.storageBase(), Duration.minutes(1))

  return { files: { ...files, url }, tasks: { ...tasks, waitFor, run, events } }
})

const isSettled = ({ status }: Task) => isTerminal(status) || status === "interrupted"

/** The events of each piece of text; how long to wait before a reconnection is this client's own choice. */
const parseEvents = () => {
  const found: Array<Sse.Event> = []
  const parser = Sse.makeParser((event) => {
    if (event._tag === "Event") found.push(event)
  })
  return (text: string) => {
    parser.feed(text)
    return found.splice(0)
  }
}

const decodeEvent = Schema.decodeUnknownEffect(Schema.fromJsonString(TaskEventView))

/** An answer that another attempt would not change. */
const isRefusal = (error: unknown) =>
  error instanceof Unauthorized || error instanceof Forbidden || error instanceof NotFound

export class TaskService extends Context.Service<TaskService, Effect.Success<ReturnType<typeof make>>>()(
  "async-task-service/http/client/TaskService"
) {
  static readonly layer = (options: TaskServiceOptions) =>
    Layer.effect(TaskService, make(options)).pipe(Layer.provide(SecureRandom.layerWebCrypto))
}
