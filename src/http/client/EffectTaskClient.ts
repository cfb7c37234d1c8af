/** The Effect client of the public interface: the HttpApi client with `waitFor`, `run` and `events` like the Promise client. */
import { Context, Duration, Effect, Layer, Predicate, type Redacted, Schedule, Schema, Stream } from "effect"
import { Sse } from "effect/encoding"
import { HttpClient, HttpClientRequest, HttpClientResponse } from "effect/http"
import { HttpApiClient } from "effect/http-api"
import * as Backoff from "../../domain/Backoff.ts"
import { isTerminal, TaskStatus } from "../../domain/Task.ts"
import type { CreateTaskBody } from "../../domain/TaskRequest.ts"
import type { ToolCall, ToolResult } from "../../domain/ToolCall.ts"
import { outputText } from "../../domain/Turn.ts"
import { Api } from "../contract/Api.ts"
import { Conflict, Forbidden, NotFound, Unauthorized } from "../contract/Errors.ts"
import type { UploadedFileView } from "../contract/FileSchemas.ts"
import { TaskEventView, type TaskView, TextEventView, type WatchedEventView } from "../contract/TaskSchemas.ts"
import { LiveText } from "./promise/LiveText.ts"
import { textChanges } from "./promise/TextChanges.ts"
import { randomId } from "./promise/Transport.ts"

export interface TaskServiceOptions {
  /** Base URL of the service, as in `https://tasks.example.com`. */
  readonly baseUrl: string
  /** Provides the user's JWT; runs once for each request. */
  readonly token: Effect.Effect<Redacted.Redacted>
}

type Task = typeof TaskView.Type
type WatchedEvent = typeof WatchedEventView.Type

/** Handles one call of a client tool. A failure becomes an error result, which the model receives. */
export type Tool<E, R> = (args: ToolCall["arguments"]) => Effect.Effect<Schema.Json, E, R>

/**
 * Receives the text of the answer whenever it has changed, and at the end all of it. `delta` is the added part; undefined when
 * the text does not continue the previous one.
 */
type OnText<R> = (text: string, delta: string | undefined) => Effect.Effect<void, never, R>

/** Seconds of one long poll: shorter than the idle timeouts of common proxies. */
const waitSeconds = 25

const retrySchedule = Schedule.jittered(Backoff.schedule("500 millis", "8 seconds"))
const reconnectSchedule = Schedule.jittered(Backoff.schedule("1 second", "30 seconds"))

const messageOf = (error: unknown): string =>
  Predicate.hasProperty(error, "message") ? String(error.message) : String(error)

/** Sends the token and retries. A POST has an `Idempotency-Key`, so that it takes effect once; the service ignores it where it needs none. */
export const makeHttp = Effect.fnUntraced(function*({ baseUrl, token }: TaskServiceOptions) {
  return (yield* HttpClient.HttpClient).pipe(
    HttpClient.mapRequest(HttpClientRequest.prependUrl(baseUrl)),
    HttpClient.mapRequestEffect((request) =>
      Effect.map(token, (value) => HttpClientRequest.bearerToken(request, value))
    ),
    HttpClient.mapRequestEffect((request) =>
      request.method === "POST" && request.headers["idempotency-key"] === undefined
        ? Effect.sync(() => HttpClientRequest.setHeader(request, "idempotency-key", randomId()))
        : Effect.succeed(request)
    ),
    HttpClient.retryTransient({ times: 2, schedule: retrySchedule })
  )
})

const execute =
  <E, R>(tools: Readonly<Record<string, Tool<E, R>>>) => (call: ToolCall): Effect.Effect<ToolResult, never, R> => {
    const tool = Object.hasOwn(tools, call.name) ? tools[call.name] : undefined
    const output: Effect.Effect<Schema.Json, E | string, R> = tool === undefined
      ? Effect.fail(`There is no tool named ${call.name}`)
      : tool(call.arguments)
    return Effect.match(output, {
      onSuccess: (output): ToolResult => ({ tool_call_id: call.id, output }),
      onFailure: (error): ToolResult => ({ tool_call_id: call.id, output: messageOf(error), is_error: true })
    })
  }

const reportChanges = <R>(onText: OnText<R>) => {
  const changeOf = textChanges()
  return (text: string | undefined) => {
    const change = changeOf(text)
    return change === undefined ? Effect.void : onText(change.text, change.delta)
  }
}

/** An event as it came. */
interface Sent {
  readonly id: string
  readonly event: string
  readonly data: string
}

interface Connection<E> {
  readonly events: Stream.Stream<Sent, E>
  /** No events follow, whatever the stream has. */
  readonly isOver: boolean
}

/** Connects again after the last received event, until the final one or an error that a retry cannot fix. */
const follow = <E, E2>(connect: (after: string) => Effect.Effect<Connection<E>, E2>, after: string) =>
  Stream.suspend(() => {
    let last = after
    let isOver = false
    const connection = Stream.unwrap(
      Effect.map(Effect.suspend(() => connect(last)), (connected) => {
        isOver = connected.isOver
        return connected.events
      })
    ).pipe(
      Stream.tap(({ event, id }) =>
        Effect.sync(() => {
          last = id
          isOver = terminal.has(event)
        })
      )
    )
    return connection.pipe(
      Stream.repeat(Schedule.spaced("1 second").pipe(Schedule.while(() => !isOver))),
      Stream.retry(reconnectSchedule.pipe(Schedule.while(({ input }) => !isRefusal(input))))
    )
  })

/** An event is named after its status, unless it is a progress note or a text. */
const terminal: ReadonlySet<string> = new Set(TaskStatus.literals.filter(isTerminal))

type ResponseMode = HttpApiClient.Client.ResponseMode

/** The request of a call whose query may be left out. */
type WithoutQuery<Call extends (request: never) => unknown> = Parameters<Call>[0] extends infer Request extends {
  readonly query: unknown
} ? Omit<Request, "query" | "responseMode"> & { readonly query?: Request["query"] }
  : never

/** The events after a revision, as one response of the service delivers them. */
const connectWith = <E, R>(http: HttpClient.HttpClient, get: (uuid: string) => Effect.Effect<Task, E, R>) =>
  Effect.fnUntraced(function*(uuid: string, after: string, include: "turn" | "text" | undefined) {
    // Fails with a typed error when the caller may not read the task.
    const task = yield* get(uuid)
    const request = HttpClientRequest.get(`/api/tasks/${encodeURIComponent(uuid)}/events`).pipe(
      HttpClientRequest.setUrlParams(include === undefined ? {} : { include }),
      HttpClientRequest.setHeaders({
        accept: "text/event-stream",
        ...(after === "" ? {} : { "last-event-id": after })
      })
    )
    const response = yield* Effect.flatMap(http.execute(request), HttpClientResponse.filterStatusOk)
    const isLast = response.status === 204
    return { isOver: isLast && isTerminal(task.status), events: isLast ? Stream.empty : eventsOf(response) }
  })

const make = Effect.fnUntraced(function*(options: TaskServiceOptions) {
  const http = yield* makeHttp(options)
  const { files, tasks } = yield* HttpApiClient.makeWith(Api, { httpClient: http })

  const get = <Mode extends ResponseMode = "decoded-only">(
    { query = {}, ...request }: WithoutQuery<typeof tasks.get> & { readonly responseMode?: Mode }
  ) => tasks.get({ ...request, query })

  const list = <Mode extends ResponseMode = "decoded-only">(
    { query = {}, ...request }: WithoutQuery<typeof tasks.list> & { readonly responseMode?: Mode } = {}
  ) => tasks.list({ ...request, query })

  /** Waits until the task has ended or is interrupted. There is no time limit. */
  const waitFor = (uuid: string) =>
    tasks.get({ params: { uuid }, query: { wait: String(waitSeconds) } }).pipe(
      // At most one request a second, in case a proxy or the service does not hold the long poll.
      Effect.repeat({ schedule: Schedule.fixed("1 second"), until: isSettled })
    )

  /** Creates a task, executes its tool calls, and returns it when it has ended. Check `status`: it may have failed. */
  const run = Effect.fnUntraced(function*<E = never, R = never, R2 = never>(
    payload: CreateTaskBody,
    tools: Readonly<Record<string, Tool<E, R>>> = {},
    { onText }: { readonly onText?: OnText<R2> } = {}
  ) {
    const { uuid } = yield* tasks.create({ payload })
    const ended = runTools(uuid, tools)
    if (onText === undefined) return yield* ended
    const report = reportChanges(onText)
    const live = new LiveText()
    const following = Stream.runForEach(texts(uuid), (part) => {
      live.take(part)
      return report(live.text)
    })
    // Errors of the stream are those of the run too.
    const task = yield* Effect.raceFirst(ended, Effect.andThen(Effect.ignore(following), Effect.never))
    yield* report(outputText(task))
    return task
  })

  const runTools = Effect.fnUntraced(function*<E, R>(uuid: string, tools: Readonly<Record<string, Tool<E, R>>>) {
    while (true) {
      const task: Task = yield* waitFor(uuid)
      if (task.status !== "interrupted") return task
      const results = yield* Effect.forEach(task.pending_tool_calls ?? [], execute(tools), { concurrency: "unbounded" })
      yield* tasks.submitToolResults({ params: { uuid }, payload: { results } }).pipe(
        // The task is no longer interrupted: it timed out, or another client resumed or canceled it.
        Effect.catchIf((error) => error instanceof Conflict, () => Effect.void)
      )
    }
  })

  const connect = connectWith(http, (uuid) => get({ params: { uuid } }))

  /**
   * Events of the task after a revision. The stream reconnects when it breaks and ends after the final event. `include: "turn"`
   * adds the text of the partial turn to progress events.
   */
  const events = (uuid: string, after = -1, { include }: { readonly include?: "turn" } = {}) =>
    Stream.mapEffect(
      follow((last) => connect(uuid, last, include), after < 0 ? "" : String(after)),
      ({ data, event }) =>
        Effect.map(decodeEvent(data), (decoded): WatchedEvent => ({
          ...decoded,
          event: event === "progress" ? event : decoded.status
        }))
    )

  const texts = (uuid: string) =>
    follow((last) => connect(uuid, last, "text"), "").pipe(
      Stream.filter(({ event }) => event === "text"),
      Stream.mapEffect(({ data }) => decodeText(data))
    )

  /**
   * The text of the answer as it is written, part by part, until the task has ended. The stream reconnects when it breaks, and repeats
   * no character. `onReplaced` runs when the text that follows is another one, not a continuation.
   */
  const text = <R = never>(
    uuid: string,
    { onReplaced = Effect.void }: { readonly onReplaced?: Effect.Effect<void, never, R> } = {}
  ) =>
    Stream.suspend(() => {
      const live = new LiveText()
      return texts(uuid).pipe(
        Stream.mapEffect((part) => {
          const { added, isOther } = live.take(part)
          return Effect.as(isOther ? onReplaced : Effect.void, added)
        }),
        Stream.filter((added) => added !== "")
      )
    })

  /** The download link of a file. It needs no token. */
  const url = (file: { readonly file: typeof UploadedFileView.Type["file"] }) =>
    Effect.map(storageBase, (base) => `${base.url}/${file.file.provider_data.path}`)
  const storageBase = yield* Effect.cachedWithTTL(files.storageBase(), Duration.minutes(1))

  return {
    files: { ...files, url },
    tasks: { ...tasks, get, list, waitFor, run, events, text }
  }
})

const isSettled = ({ status }: Task) => isTerminal(status) || status === "interrupted"

/** Returns the events of each chunk of text. Ignores `retry` fields: `reconnectSchedule` applies instead. */
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

const decodeText = Schema.decodeUnknownEffect(Schema.fromJsonString(TextEventView))

const eventsOf = (response: HttpClientResponse.HttpClientResponse) =>
  response.stream.pipe(
    Stream.decodeText,
    Stream.map(parseEvents()),
    Stream.flattenIterable,
    Stream.map(({ data, event, id }): Sent => ({ data, event, id: id ?? "" }))
  )

/** Errors that a retry cannot fix. */
const isRefusal = (error: unknown) =>
  error instanceof Unauthorized || error instanceof Forbidden || error instanceof NotFound

export class TaskService extends Context.Service<TaskService, Effect.Success<ReturnType<typeof make>>>()(
  "async-task-service/http/client/EffectTaskClient/TaskService"
) {
  static readonly layer = (options: TaskServiceOptions) => Layer.effect(TaskService, make(options))
}
