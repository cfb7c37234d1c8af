/** Reads one task, by REST and by RPC: immediately, or when it has changed (long poll). */
import { Duration, Effect } from "effect"
import { HttpServerRequest, HttpServerResponse } from "effect/http"
import * as OpaqueJson from "../../domain/json/OpaqueJson.ts"
import type { Writable } from "../../domain/json/Writer.ts"
import { isTerminal, type Task, type TaskHead, type TaskId } from "../../domain/Task.ts"
import * as TaskView from "../../domain/TaskView.ts"
import { isQueued } from "../../domain/WaitingOn.ts"
import { TaskLinks } from "../../services/Extensions.ts"
import { Memory } from "../../services/limits/Memory.ts"
import { RunQueue } from "../../services/store/queue/RunQueue.ts"
import { type TaskOutline, TaskStore } from "../../services/store/tasks/TaskStore.ts"
import { TaskRequests } from "../../services/tasks/TaskRequests.ts"
import * as Services from "../../services/tasks/Tasks.ts"
import { TaskWatch } from "../../services/tasks/TaskWatch.ts"
import { type Client, makeClient, slicesOf, Turns } from "../../services/tasks/Turns.ts"
import { CurrentCaller } from "../contract/Middleware.ts"
import { TasksRpc } from "../contract/rpc/RpcTasks.ts"
import type { TaskView as TaskObject } from "../contract/TaskSchemas.ts"
import { CurrentToken, whileValid } from "./CurrentToken.ts"
import { readErrors, refusing } from "./ErrorResponses.ts"
import * as ETags from "./ETags.ts"
import { decodeTaskQuery, type TaskQuery } from "./Query.ts"
import * as RpcRequests from "./rpc/RpcRequests.ts"

type Version = Pick<TaskHead, "revision" | "acceptanceDeadline" | "redispatches" | "queueRevision">

/**
 * One tag per version of a task; with `waiting_on` also one per acceptance deadline, dispatch and place in the queue, which change
 * without a revision.
 */
const etagOf = (
  { acceptanceDeadline, redispatches, queueRevision, revision }: Version,
  includesWaitingOn: boolean,
  position?: number
) => {
  if (!includesWaitingOn) return `"${revision}"`
  const place = position === undefined ? "" : `-${position}`
  return `"${revision}-${acceptanceDeadline ?? 0}-${redispatches ?? 0}-${queueRevision}${place}"`
}

const withoutPlace = (tags: string) => tags.replaceAll(/"(\d+(?:-\d+){3})-\d+"/g, "\"$1\"")

/** Headers of 200 and of 304. A cache replaces its copy by those of a 304. */
const headersOf = (...version: Parameters<typeof etagOf>) => ({
  etag: etagOf(...version),
  "cache-control": "private, no-cache"
})

/** Returns a function that finds the field `waiting_on` of tasks by their ids. */
export const makeWaiting = Effect.map(RunQueue, (queue) =>
  Effect.fnUntraced(function*(heads: ReadonlyArray<Waiting>) {
    const queued = heads.filter(isQueued).map(({ uuid }) => uuid)
    const positions = queued.length === 0 ? new Map<TaskId, number>() : yield* queue.positions(queued)
    return new Map(heads.map((head) => [head.uuid, TaskView.describeWaiting(head, positions.get(head.uuid))]))
  }))

type Waiting = Parameters<typeof TaskView.describeWaiting>[0] & Pick<TaskHead, "uuid">

/** Returns a function that renders a task with the fields that `include` adds. */
const makeRender = <A>(
  render: (task: Task, extras: { readonly [field: string]: Writable }, request: string | undefined) => A
) =>
  Effect.map(
    Effect.all([TaskStore, TaskRequests, makeWaiting]),
    ([reads, requests, waitingOf]) =>
      Effect.fnUntraced(function*(
        task: Task,
        { included, links }: Pick<TaskQuery, "included" | "links">,
        position?: number
      ) {
        const waiting = !included.has("waiting_on")
          ? {}
          : position === undefined
          ? (yield* waitingOf([task])).get(task.uuid)
          : TaskView.describeWaiting(task, position)
        const metadata = included.has("metadata")
          ? TaskView.describeMetadata((yield* reads.metadata(task.sub, [task.uuid])).get(task.uuid))
          : {}
        const linked: Record<string, Writable> = {}
        for (const { describe, name } of links) linked[name] = yield* describe(task.uuid)
        const request = included.has("request") ? yield* requests.describe(task.uuid) : undefined
        return render(task, { ...waiting, ...metadata, ...linked }, request)
      })
  )

/** A response of JSON in pieces. The client receives large ones as fast as it takes them. */
export const makeSend = Effect.map(
  Turns,
  (sent) =>
  (client: Client, pieces: ReadonlyArray<string | Uint8Array>, headers: Readonly<Record<string, string>> = {}) => {
    const bytes = OpaqueJson.toBytes(pieces)
    const options = { contentType: "application/json", headers }
    // As bytes, because Node keeps a text and a copy of it until the client has read the response.
    if (bytes.length === 1) return HttpServerResponse.uint8Array(OpaqueJson.concat(bytes), options)
    const contentLength = OpaqueJson.sizeOf(bytes)
    return HttpServerResponse.stream(sent.send(client, slicesOf(bytes)), { ...options, contentLength })
  }
)

/** Returns a function that reads a task whose outline lacks its large turn, together with others who read it at the same time. */
const makeComplete = Effect.gen(function*() {
  const tasks = yield* Services.Tasks
  const sent = yield* Turns
  const memory = yield* Memory
  const readLarge = yield* sent.share(({ sub, turnBytes, uuid }) =>
    Effect.scoped(Effect.andThen(memory.read.take(sub, turnBytes), tasks.get(RpcRequests.reader(sub), uuid)))
  )
  return (client: Client, outline: TaskOutline) =>
    outline.turn === null && outline.turnBytes > 0 ? readLarge(client, outline) : Effect.succeed(outline)
})

const plainQuery: TaskQuery = { wait: Duration.zero, included: new Set(), links: [] }

export const make = Effect.gen(function*() {
  const tasks = yield* Services.Tasks
  const queue = yield* RunQueue
  const watch = yield* TaskWatch
  const toPieces = yield* makeRender(TaskView.toPieces)
  const links = yield* TaskLinks
  const complete = yield* makeComplete
  const send = yield* makeSend

  /** Undefined for a run that is not in the queue. */
  const positionOf = Effect.fnUntraced(function*(task: TaskHead) {
    return isQueued(task) ? (yield* queue.positions([task.uuid])).get(task.uuid) ?? 1 : undefined
  })

  return Effect.fnUntraced(
    function*(uuid: string, request: HttpServerRequest.HttpServerRequest) {
      const { principal } = yield* CurrentCaller
      const query = yield* HttpServerRequest.ParsedSearchParams
      const ifNoneMatch = request.headers["if-none-match"]
      const isPlain = Object.keys(query).length === 0 && ifNoneMatch === undefined
      const head = isPlain ? undefined : yield* tasks.getHead(principal, uuid)
      const wanted = isPlain ? plainQuery : yield* Effect.fromResult(decodeTaskQuery(query, links))
      const { included, wait } = wanted
      const includesWaitingOn = included.has("waiting_on")
      const isKnown = (task: TaskHead, position?: number) =>
        ifNoneMatch !== undefined && ETags.names(ifNoneMatch, etagOf(task, includesWaitingOn, position))
      // Another place in the queue alone does not end a wait.
      const isSame = (task: TaskHead) => ETags.names(withoutPlace(ifNoneMatch ?? ""), etagOf(task, includesWaitingOn))
      const isEnough = (task: TaskHead) =>
        isTerminal(task.status) || task.status === "interrupted" || (ifNoneMatch !== undefined && !isSame(task))

      const notModified = (task: TaskHead, position: number | undefined) =>
        HttpServerResponse.empty({ status: 304, headers: headersOf(task, includesWaitingOn, position) })
      if (head !== undefined && Duration.isPositive(wait) && !isEnough(head)) {
        yield* whileValid(watch.until(head, isEnough, wait))
        yield* (yield* CurrentToken).check
      } else if (head !== undefined && ifNoneMatch !== undefined) {
        const position = includesWaitingOn ? yield* positionOf(head) : undefined
        if (isKnown(head, position)) return notModified(head, position)
      }
      const outline = yield* tasks.getOutline(principal, uuid)
      const position = includesWaitingOn ? yield* positionOf(outline) : undefined
      if (isKnown(outline, position)) return notModified(outline, position)
      const client = makeClient()
      const task = yield* complete(client, outline)
      return send(client, yield* toPieces(task, wanted, position), headersOf(task, includesWaitingOn, position))
    },
    refusing(readErrors)
  )
})

/** The task as an object: digits beyond 2^53 are not kept. */
const describeTask = (...given: Parameters<typeof TaskView.toJson>) =>
  OpaqueJson.toValue<typeof TaskObject.Type>(TaskView.toJson(...given))

export const layerRpc = TasksRpc.toLayerHandler(
  "Tasks.get",
  Effect.gen(function*() {
    const tasks = yield* Services.Tasks
    const describe = yield* makeRender(describeTask)
    const links = yield* TaskLinks
    const complete = yield* makeComplete
    return Effect.fnUntraced(
      function*({ include, sub, uuid }) {
        const outline = yield* tasks.getOutline(RpcRequests.reader(sub), uuid)
        const wanted = yield* Effect.fromResult(decodeTaskQuery({ include }, links))
        return yield* describe(yield* complete(makeClient(), outline), wanted)
      },
      Effect.scoped,
      RpcRequests.answer
    )
  })
)
