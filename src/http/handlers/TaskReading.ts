/** Reads one task: immediately, when it has changed (long poll), or as a stream of its events. */
import { Duration, Effect, Option, Stream } from "effect"
import { Sse } from "effect/encoding"
import { HttpServerRequest, HttpServerResponse } from "effect/http"
import * as OpaqueJson from "../../domain/OpaqueJson.ts"
import { isTerminal, type Task, type TaskHead, type TaskStatus } from "../../domain/Task.ts"
import * as TaskRerun from "../../domain/TaskRerun.ts"
import * as TaskView from "../../domain/TaskView.ts"
import { format } from "../../domain/Timestamp.ts"
import type { RecordedEvent } from "../../services/store/TaskReads.ts"
import { TaskRequests } from "../../services/TaskRequests.ts"
import * as Services from "../../services/Tasks.ts"
import { TaskWatch, type WatchedEvent } from "../../services/TaskWatch.ts"
import { invalid, TooManyRequests } from "../contract/Errors.ts"
import { CurrentCaller } from "../contract/Middleware.ts"
import { CurrentToken } from "./CurrentToken.ts"
import { failWith, taskErrors } from "./ErrorResponses.ts"
import { decodeEventsQuery, decodeTaskQuery, type includes } from "./Query.ts"

const readErrors = { ...taskErrors, TooManyWaiting: failWith(TooManyRequests) }

/** Weak comparison with the tags of `If-None-Match` (RFC 9110). */
const matches = (ifNoneMatch: string, etag: string) =>
  ifNoneMatch.trim() === "*" || ifNoneMatch.split(",").some((tag) => tag.trim().replace(/^W\//, "") === etag)

type Version = Pick<TaskHead, "revision" | "acceptanceDeadline">

/** One tag per version of a task; with `waiting_on` also one per acceptance deadline, which changes without a revision. */
const etagOf = (task: Version, includesWaitingOn: boolean) =>
  includesWaitingOn ? `"${task.revision}-${task.acceptanceDeadline ?? 0}"` : `"${task.revision}"`

/** Headers of 200 and of 304. A cache replaces its copy by those of a 304. */
const headersOf = (task: Version, includesWaitingOn: boolean) => ({
  etag: etagOf(task, includesWaitingOn),
  "cache-control": "private, no-cache"
})

const keepAliveInterval = Duration.seconds(15)
const reconnectAfter = new Sse.Retry({ duration: Duration.seconds(2), lastEventId: undefined })

/** A progress note does not change the status; every other event is named after its new status. */
export const nameOf = ({ status, type }: RecordedEvent): TaskStatus | "progress" =>
  type === "Progressed" ? "progress" : status

export const describe = (uuid: string, { occurredAt, revision, status, text }: WatchedEvent) => ({
  uuid,
  revision,
  status,
  occurred_at: format(occurredAt),
  ...(text === undefined ? {} : { text })
})

const render = (uuid: string) => (event: WatchedEvent) =>
  Sse.encoder.write({
    _tag: "Event",
    id: String(event.revision),
    event: nameOf(event),
    data: JSON.stringify(describe(uuid, event))
  })

/** The last revision that the client received, or -1, which is before the first. */
const lastEventId = (request: HttpServerRequest.HttpServerRequest) => {
  const given = request.headers["last-event-id"]
  if (given === undefined || given === "") return Effect.succeed(-1)
  return /^\d{1,9}$/.test(given)
    ? Effect.succeed(Number(given))
    : Effect.fail(invalid("Last-Event-ID", "Expected the id of an event of this stream"))
}

/** Returns a function that renders a task with the fields that `include` adds. */
export const makeRender = <A>(render: (task: Task, extras: object, request: string | undefined) => A) =>
  Effect.map(
    TaskRequests,
    (requests) =>
      Effect.fnUntraced(function*(task: Task, included: ReadonlySet<typeof includes[number]>) {
        const waiting = included.has("waiting_on") ? TaskView.describeWaiting(task) : {}
        const metadata = included.has("metadata")
          ? TaskView.describeMetadata((yield* requests.metadata(task.sub, [task.uuid])).get(task.uuid))
          : {}
        const request = included.has("request")
          ? Option.match(yield* requests.storedRequest(task.uuid), { onNone: () => "null", onSome: TaskRerun.describe })
          : undefined
        return render(task, { ...waiting, ...metadata }, request)
      })
  )

const keepAlive = Stream.map(Stream.drop(Stream.tick(keepAliveInterval), 1), () => ": keep-alive\n\n")

export const make = Effect.gen(function*() {
  const tasks = yield* Services.Tasks
  const watch = yield* TaskWatch
  const encode = yield* makeRender(TaskView.encode)

  const get = Effect.fnUntraced(
    function*(uuid: string, request: HttpServerRequest.HttpServerRequest) {
      const { principal } = yield* CurrentCaller
      const query = yield* HttpServerRequest.ParsedSearchParams
      const ifNoneMatch = request.headers["if-none-match"]
      const isPlain = Object.keys(query).length === 0 && ifNoneMatch === undefined
      const head = isPlain ? undefined : yield* tasks.getHead(principal, uuid)
      const { included, wait } = yield* Effect.fromResult(decodeTaskQuery(query))
      const includesWaitingOn = included.has("waiting_on")
      const isKnown = (task: TaskHead) =>
        ifNoneMatch !== undefined && matches(ifNoneMatch, etagOf(task, includesWaitingOn))
      const isEnough = (task: TaskHead) =>
        isTerminal(task.status) || task.status === "interrupted" || (ifNoneMatch !== undefined && !isKnown(task))

      let current = head
      if (head !== undefined && Duration.isPositive(wait) && !isEnough(head)) {
        const token = yield* CurrentToken
        yield* Effect.raceFirst(watch.until(head, isEnough, wait), token.ended)
        yield* token.check
        current = yield* tasks.getHead(principal, uuid)
      }
      if (current !== undefined && isKnown(current)) {
        return HttpServerResponse.empty({ status: 304, headers: headersOf(current, includesWaitingOn) })
      }
      const task = yield* tasks.get(principal, uuid)
      // As bytes, because Node keeps a text and a copy of it until the client has read the response.
      return HttpServerResponse.uint8Array(OpaqueJson.encode(yield* encode(task, included)), {
        contentType: "application/json",
        headers: headersOf(task, includesWaitingOn)
      })
    },
    Effect.catchTags(readErrors)
  )

  const events = Effect.fnUntraced(
    function*(uuid: string, request: HttpServerRequest.HttpServerRequest) {
      const { principal } = yield* CurrentCaller
      const { ended } = yield* CurrentToken
      const task = yield* tasks.getHead(principal, uuid)
      const { includesText } = yield* Effect.fromResult(decodeEventsQuery(yield* HttpServerRequest.ParsedSearchParams))
      const after = yield* lastEventId(request)
      // 204 makes a client that reconnects automatically stop: no event follows.
      if (isTerminal(task.status) && after >= task.revision) return HttpServerResponse.empty({ status: 204 })
      const recorded = yield* watch.events(task, after, includesText)
      const text = Stream.succeed(Sse.encoder.write(reconnectAfter)).pipe(
        Stream.concat(Stream.map(recorded, render(uuid))),
        Stream.merge(keepAlive, { haltStrategy: "left" }),
        // A stream must not outlive the token that opened it.
        Stream.interruptWhen(ended),
        Stream.encodeText
      )
      return HttpServerResponse.stream(request.method === "HEAD" ? Stream.empty : text, {
        contentType: "text/event-stream",
        headers: { "cache-control": "no-store", "x-accel-buffering": "no" }
      })
    },
    Effect.catchTags(readErrors)
  )

  return { get, events }
})
