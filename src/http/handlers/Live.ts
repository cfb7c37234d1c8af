/** The live texts of this node for the other nodes of its cluster (`contract/LiveProtocol`). */
import { Context, Duration, Effect, Exit, Layer, Queue, type Redacted, Scope, Stream } from "effect"
import { HttpRouter, HttpServerRequest, HttpServerResponse } from "effect/http"
import { encode, fromValue } from "../../domain/json/OpaqueJson.ts"
import { stringOf } from "../../domain/json/RawJson.ts"
import type { StoreUnavailable } from "../../domain/StoreUnavailable.ts"
import type { TaskId } from "../../domain/Task.ts"
import { TaskOwnership } from "../../services/cluster/TaskOwnership.ts"
import type { Handed } from "../../services/live/LivePeers.ts"
import { LiveTexts } from "../../services/live/LiveTexts.ts"
import { TaskStore } from "../../services/store/tasks/TaskStore.ts"
import { Tasks } from "../../services/tasks/Tasks.ts"
import { WrongTokens } from "../../services/tokens/WrongTokens.ts"
import { Follow, type Line, Reports } from "../contract/LiveProtocol.ts"
import { bearerOf, isOneOf, makeRefuse } from "./Authorization.ts"
import { type BodyError, BodyReader } from "./body/BodyReader.ts"
import { kind } from "./body/JsonBody.ts"
import { CurrentToken } from "./CurrentToken.ts"

/** The tokens of other nodes; none outside of a cluster, which has no such routes then. */
export const LiveTokens = Context.Reference<ReadonlyArray<Redacted.Redacted>>(
  "async-task-service/http/handlers/Live/LiveTokens",
  {
    defaultValue: () => []
  }
)

const heartbeat = Duration.seconds(1)
/** Characters of lines that wait for another node. It opens another stream when it is that far behind. */
const maxWaiting = 8 * 1024 * 1024
/** Streams, of which each other node has one. */
const maxStreams = 200
const maxTasks = 10_000
/** Reports of different runs at a time. */
const concurrency = 64

const reports = kind(Reports, { to: ({ reports }) => reports })
const following = kind(Follow, { to: (follow) => follow })

const nodeToken: typeof CurrentToken.Service = { holder: "node", check: Effect.void, ended: Effect.never }

const handedOf = ({ appends, turn, ...run }: typeof Reports.Type["reports"][number]): Handed => ({
  ...run,
  ...(appends === undefined ? {} : { appends: appends.map(({ index, text }) => ({ index, text: stringOf(text) })) }),
  ...(turn === undefined ? {} : { turn: { ...turn, text: stringOf(turn.text) } })
})

/** Nodes read only whether it is 200; 503 is a failure of the service, and any other a fault of the caller. */
const statuses: Readonly<Record<string, number>> = { Unauthorized: 401, PayloadTooLarge: 413, ValidationFailed: 422 }

interface LiveStream {
  readonly follow: (uuid: TaskId) => Effect.Effect<void>
  readonly unfollow: (uuid: TaskId) => Effect.Effect<void>
}

const makeStreams = Effect.gen(function*() {
  const texts = yield* LiveTexts
  const store = yield* TaskStore
  const ownership = yield* TaskOwnership
  const streams = new Map<string, LiveStream>()

  const open = (id: string) =>
    Stream.callback<Uint8Array>(Effect.fnUntraced(function*(queue) {
      const followed = new Map<TaskId, Scope.Closeable>()
      let waiting = 0
      const send = (line: typeof Line.Type) => {
        const bytes = encode(fromValue(line))
        waiting = Queue.sizeUnsafe(queue) === 0 ? bytes.length : waiting + bytes.length
        if (waiting > maxWaiting) return Queue.endUnsafe(queue)
        Queue.offerUnsafe(queue, bytes)
        return Queue.offerUnsafe(queue, lineEnd)
      }
      const unfollow = (uuid: TaskId) =>
        Effect.suspend(() => {
          const scope = followed.get(uuid)
          followed.delete(uuid)
          return scope === undefined ? Effect.void : Scope.close(scope, Exit.void)
        })
      const giveUp = (uuid: TaskId) =>
        Effect.andThen(unfollow(uuid), Effect.sync(() => void send({ task: uuid, isGone: true })))

      const follow = Effect.fnUntraced(function*(uuid: TaskId) {
        yield* unfollow(uuid)
        const [head] = ownership.isMine(uuid) && followed.size < maxTasks ? yield* store.heads([uuid]) : []
        if (head === undefined || !streams.has(id)) return yield* giveUp(uuid)
        // Another call may have followed it meanwhile.
        yield* unfollow(uuid)
        const scope = yield* Scope.make()
        followed.set(uuid, scope)
        const feed = texts.feed(head, (change) => void send({ task: uuid, ...change }))
        yield* Effect.provideService(feed, Scope.Scope, scope)
      }, (effect, uuid) => Effect.catch(effect, () => giveUp(uuid)))

      yield* Effect.addFinalizer(() =>
        Effect.andThen(
          Effect.sync(() => void streams.delete(id)),
          Effect.forEach([...followed.keys()], unfollow, { discard: true })
        )
      )
      streams.set(id, { follow, unfollow })
      const beat = Effect.gen(function*() {
        Queue.offerUnsafe(queue, lineEnd)
        yield* Effect.sleep(heartbeat)
        for (const uuid of followed.keys()) if (!ownership.isMine(uuid)) yield* giveUp(uuid)
      })
      return yield* Effect.forever(beat)
    }))

  return { streams, open }
})

const lineEnd = encode("\n")

export const layer = HttpRouter.use((router) =>
  Effect.gen(function*() {
    const tokens = yield* LiveTokens
    const tasks = yield* Tasks
    const ownership = yield* TaskOwnership
    const { read } = yield* BodyReader
    const refuse = yield* makeRefuse
    const { open, streams } = yield* makeStreams
    if (tokens.length === 0) return

    const guarded = <R>(
      handler: Effect.Effect<HttpServerResponse.HttpServerResponse, BodyError | StoreUnavailable, R>
    ) =>
      Effect.gen(function*() {
        const token = bearerOf(yield* HttpServerRequest.HttpServerRequest)
        return yield* isOneOf(tokens, token) ? handler : refuse(token)
      }).pipe(
        Effect.provideService(CurrentToken, nodeToken),
        Effect.catch(({ message, name }: BodyError | StoreUnavailable) =>
          Effect.succeed(HttpServerResponse.jsonUnsafe({ message }, { status: statuses[name] ?? 503 }))
        )
      )

    const bodyOf = <A>(bodyKind: Parameters<typeof read<A>>[0]) =>
      Effect.flatMap(
        HttpServerRequest.HttpServerRequest,
        (request) => Effect.map(read(bodyKind, request), ({ body }) => body)
      )

    const report = Effect.gen(function*() {
      const given = yield* bodyOf(reports)
      const results: Array<object> = []
      const byRun = Map.groupBy(given.entries(), ([, { runId }]) => runId)
      yield* Effect.forEach(byRun.values(), (ofRun) =>
        Effect.forEach(ofRun, ([index, one]) =>
          Effect.map(
            ownership.isMine(one.uuid) ? tasks.takeOver(handedOf(one)) : Effect.succeed({ _tag: "NotMine" }),
            (taken) => void (results[index] = taken)
          ), { discard: true }), { concurrency, discard: true })
      return HttpServerResponse.jsonUnsafe({ results })
    })

    const follow = Effect.gen(function*() {
      const { stream, tasks, unfollow } = yield* bodyOf(following)
      const found = streams.get(stream)
      if (found === undefined) return HttpServerResponse.empty({ status: 404 })
      yield* Effect.forEach(unfollow, found.unfollow, { discard: true })
      yield* Effect.forEach(tasks, found.follow, { discard: true, concurrency: 8 })
      return HttpServerResponse.jsonUnsafe({})
    })

    const stream = Effect.gen(function*() {
      const id = new URLSearchParams((yield* HttpServerRequest.HttpServerRequest).url.split("?")[1]).get("stream") ?? ""
      if (id === "" || id.length > 64 || streams.has(id) || streams.size >= maxStreams) {
        return HttpServerResponse.empty({ status: 409 })
      }
      return HttpServerResponse.stream(open(id), { contentType: "application/x-ndjson" })
    })

    yield* router.add(
      "GET",
      "/internal/live/shards",
      guarded(Effect.sync(() => HttpServerResponse.jsonUnsafe({ shards: ownership.shards() ?? [] })))
    )
    yield* router.add("POST", "/internal/live/reports", guarded(report))
    yield* router.add("POST", "/internal/live/follow", guarded(follow))
    yield* router.add("GET", "/internal/live/texts", guarded(stream))
  })
).pipe(Layer.provide(WrongTokens.layer))
