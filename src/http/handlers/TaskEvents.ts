/** The events of a task as a stream, by REST and by RPC. */
import { Effect, Stream } from "effect"
import { HttpServerRequest, HttpServerResponse } from "effect/http"
import { encode } from "../../domain/json/OpaqueJson.ts"
import { isTerminal, type TaskStatus } from "../../domain/Task.ts"
import { format } from "../../domain/Timestamp.ts"
import { type Form, LiveReading, type Place } from "../../services/live/LiveReading.ts"
import type { RecordedEvent } from "../../services/store/tasks/TaskStore.ts"
import * as Services from "../../services/tasks/Tasks.ts"
import { TaskWatch, type WatchedEvent } from "../../services/tasks/TaskWatch.ts"
import { cutAfter, endWhen } from "../../services/timing/StreamEnds.ts"
import { invalid } from "../contract/Errors.ts"
import { CurrentCaller } from "../contract/Middleware.ts"
import { TasksRpc } from "../contract/rpc/RpcTasks.ts"
import { CurrentToken } from "./CurrentToken.ts"
import { readErrors, refusing } from "./ErrorResponses.ts"
import * as EventStream from "./EventStream.ts"
import { decodeEventsQuery } from "./Query.ts"
import * as RpcRequests from "./rpc/RpcRequests.ts"

/** A progress note does not change the status; every other event is named after its new status. */
const nameOf = ({ status, type }: RecordedEvent): TaskStatus | "progress" => type === "Progressed" ? "progress" : status

export const describe = (uuid: string, { occurredAt, revision, status, text }: WatchedEvent) => ({
  uuid,
  revision,
  status,
  occurred_at: format(occurredAt),
  ...(text === undefined ? {} : { text })
})

/** An event before all text has the id that it has in a stream without text. */
const idOf = ({ end, revision }: Place) => end === 0 ? String(revision) : `${revision}.${end}`

/** Server-sent events of a task and its text. */
const formOf = (uuid: string): Form<Uint8Array> => ({
  text: (event, { end, revision }) => encode(`id: ${revision}.${end}\nevent: text\ndata: ${JSON.stringify(event)}\n\n`),
  event: (event, place) =>
    encode(
      `id: ${idOf(place)}\nevent: ${nameOf(event)}\ndata: ${JSON.stringify(describe(uuid, event))}\n\n`
    ),
  idle: EventStream.idle
})

/** The last revision that the client received, or -1, which is before the first, and where its text ends. */
const lastEventId = (request: HttpServerRequest.HttpServerRequest, includesText: boolean) => {
  const given = request.headers["last-event-id"]
  if (given === undefined || given === "") return Effect.succeed({ revision: -1, end: 0 })
  const [, revision, end = 0] = (includesText ? /^(\d{1,9})(?:\.(\d{1,16}))?$/ : /^(\d{1,9})$/).exec(given) ?? []
  return revision === undefined
    ? Effect.fail(invalid("Last-Event-ID", "Expected the id of an event of this stream"))
    : Effect.succeed({ revision: Number(revision), end: Number(end) })
}

export const make = Effect.gen(function*() {
  const tasks = yield* Services.Tasks
  const watch = yield* TaskWatch
  const live = yield* LiveReading

  return Effect.fnUntraced(
    function*(uuid: string, request: HttpServerRequest.HttpServerRequest) {
      const { principal } = yield* CurrentCaller
      const { ended } = yield* CurrentToken
      const task = yield* tasks.getHead(principal, uuid)
      const { includesText, includesTurn } = yield* Effect.fromResult(
        decodeEventsQuery(yield* HttpServerRequest.ParsedSearchParams)
      )
      const after = yield* lastEventId(request, includesText)
      // 204 makes a client that reconnects automatically stop: no event follows.
      if (isTerminal(task.status) && after.revision >= task.revision) return HttpServerResponse.empty({ status: 204 })
      const form = formOf(task.uuid)
      // A stream must not outlive the token that opened it.
      const stream = includesText
        ? cutAfter(
          yield* live.read(task, after, form, { beginning: EventStream.beginning, includesTurn, ended }),
          ended
        )
        : endWhen(
          EventStream.begun(EventStream.withComments(Stream.map(
            yield* watch.events(task, after.revision, includesTurn),
            (event) => form.event(event, { revision: event.revision, end: 0 })
          ))),
          ended
        )
      return EventStream.respond(request, stream)
    },
    refusing(readErrors)
  )
})

export const layerRpc = TasksRpc.toLayerHandler(
  "Tasks.watch",
  Effect.gen(function*() {
    const tasks = yield* Services.Tasks
    const watch = yield* TaskWatch
    return ({ after = -1, include = [], sub, uuid }) =>
      Stream.unwrap(
        tasks.getHead(RpcRequests.reader(sub), uuid).pipe(
          Effect.flatMap((task) =>
            Effect.map(
              watch.events(task, after, include.includes("turn")),
              Stream.map((event) => ({ ...describe(task.uuid, event), event: nameOf(event) }))
            )
          )
        )
      ).pipe(
        Stream.catchTag("StoreUnavailable", (error) => Stream.fromEffect(RpcRequests.answer(Effect.fail(error))))
      )
  })
)
