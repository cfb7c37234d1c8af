import * as NodeHttpClient from "@effect/platform-node/NodeHttpClient"
import { assert, describe, it } from "@effect/vitest"
import { Context, Deferred, Effect, Layer, Option, Queue, Redacted, Schema, Stream } from "effect"
import {
  HttpClient,
  HttpClientRequest,
  type HttpClientResponse,
  HttpRouter,
  HttpServerRequest,
  HttpServerResponse
} from "effect/http"
import { createServer } from "node:http"
import * as CoreRoutes from "../../../../src/runtime/builtin/core/CoreRoutes.ts"
import * as InProcess from "../../../../src/runtime/node/InProcess.ts"
import * as NodeCrypto from "../../../../src/runtime/node/NodeCrypto.ts"

const token = Redacted.make("token")
const [core, backend, service] = ["http://core.test", "http://backend.test", "http://service.test"]
const id = "01920000-0000-7000-8000-000000000000"

const Event = Schema.Struct({
  type: Schema.String,
  accepted: Schema.optional(Schema.Boolean),
  turn: Schema.optional(Schema.Json)
})

const encode = (lines: ReadonlyArray<object>) => lines.map((line) => `${JSON.stringify(line)}\n`).join("")
const streamed = (lines: ReadonlyArray<object>) =>
  HttpServerResponse.stream(Stream.encodeText(Stream.make(encode(lines))))

const succeeded = Effect.succeed(HttpServerResponse.empty())

/** A core, the backend's response to its turns, and the service's response to its events. */
const makeCore = Effect.fnUntraced(function*(
  turn: HttpServerResponse.HttpServerResponse | Effect.Effect<HttpServerResponse.HttpServerResponse>,
  { backendUrl = backend, maxRuns = 32, onResponse = () => Effect.void, receipt = succeeded }: {
    readonly backendUrl?: string
    readonly maxRuns?: number
    readonly onResponse?: (response: HttpClientResponse.HttpClientResponse) => Effect.Effect<void>
    readonly receipt?: Effect.Effect<HttpServerResponse.HttpServerResponse>
  } = {}
) {
  const events = yield* Queue.unbounded<typeof Event.Type>()
  const peers = HttpRouter.use((router) =>
    Effect.all([
      // The id is one part of the next path, whatever it contains.
      router.add("POST", "/chats", HttpServerResponse.jsonUnsafe({ id: "2026/chat?1" })),
      router.add("POST", "/chats/:id/turns", turn),
      router.add(
        "POST",
        "/events",
        Effect.orDie(HttpServerRequest.schemaBodyJson(Event)).pipe(
          Effect.flatMap((event) => Queue.offer(events, event)),
          Effect.andThen(receipt)
        )
      )
    ], { discard: true })
  )
  const routes = CoreRoutes.layer({ backendUrl, eventTokens: [token], tokens: [token], eventsOrigin: service, maxRuns })
  const app = yield* InProcess.toApp(peers)
  const inside = yield* Effect.provide(HttpClient.HttpClient, InProcess.layerClient(app))
  const outside = Context.get(yield* Layer.build(NodeHttpClient.layerUndici), HttpClient.HttpClient)
  const peer = HttpClient.transform(
    outside,
    (sent, request) => request.url.startsWith("http://127.0.0.1") ? sent : inside.execute(request)
  )
  const layerClient = Layer.succeed(HttpClient.HttpClient, HttpClient.tap(peer, onResponse))
  const layerCore = InProcess.layerClient(
    yield* InProcess.toApp(Layer.provide(routes, [layerClient, NodeCrypto.layerRandom]))
  )
  const http = yield* Effect.provide(HttpClient.HttpClient, layerCore)
  const start = (runId: string) =>
    HttpClientRequest.post(`${core}/runs`).pipe(
      HttpClientRequest.bearerToken(token),
      HttpClientRequest.bodyJsonUnsafe({
        task_id: id,
        run_id: runId,
        user: { sub: "user" },
        user_token: "user token",
        deadline_at: "2030-01-01T00:00:00Z",
        events_url: `${service}/events`,
        resume: null,
        assistant_id: 1,
        input: [{ type: "text", text: "Why?" }],
        turns: [],
        client_tools: [],
        image_generator_id: null,
        llm_model_id: null
      }),
      http.execute
    )
  return { events, start }
})

/** The events of one run. */
const makeEvents = Effect.fnUntraced(function*(...options: Parameters<typeof makeCore>) {
  const { events, start } = yield* makeCore(...options)
  assert.strictEqual((yield* start(id)).status, 202)
  return events
})

const progress = { type: "progress", turn: { output: [] } }
const completed = { type: "completed", turn: { output: [{ type: "text", text: "Because." }] } }
const processing = { type: "processing" }

describe("CoreRoutes", () => {
  it.effect("never drops the last line of a turn, although others follow it", () =>
    Effect.gen(function*() {
      const events = yield* makeEvents(streamed([progress, completed, progress]))
      assert.containSubset(yield* Queue.takeN(events, 2), [processing, completed])
    }))

  it.effect("reports a turn that arrives immediately by its last event only", () =>
    Effect.gen(function*() {
      const events = yield* makeEvents(HttpServerResponse.text(encode([completed])))
      assert.containSubset(yield* Queue.take(events), { ...completed, accepted: true })
    }))

  it.effect("reports that a run was processing when its turn is refused or has no last line", () =>
    Effect.gen(function*() {
      for (const turn of [HttpServerResponse.empty({ status: 404 }), HttpServerResponse.text("no JSON")]) {
        const events = yield* makeEvents(turn)
        assert.containSubset(yield* Queue.takeN(events, 2), [processing, { type: "failed" }])
      }
    }))

  it.effect("reports that a run is processing while its turn is made", () =>
    Effect.gen(function*() {
      const made = yield* Deferred.make<HttpServerResponse.HttpServerResponse>()
      const events = yield* makeEvents(Deferred.await(made))
      assert.containSubset(yield* Queue.take(events), processing)
      yield* Deferred.succeed(made, HttpServerResponse.text(encode([completed])))
      const last = yield* Queue.take(events)
      assert.containSubset(last, completed)
      assert.isUndefined(last.accepted)
    }))

  it.effect("closes the connection to the backend when the service refuses the run", () =>
    Effect.gen(function*() {
      const responded = yield* Deferred.make<void>()
      const closed = yield* Deferred.make<void>()
      const server = createServer((request, response) => {
        if (request.url === "/chats") return void response.writeHead(201).end("{\"id\": \"chat\"}")
        response.once("close", () => Deferred.doneUnsafe(closed, Effect.void))
        response.flushHeaders()
      })
      yield* Effect.acquireRelease(
        Effect.promise(() => new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve))),
        () => Effect.sync(() => server.closeAllConnections())
      )
      const { port } = Schema.decodeUnknownSync(Schema.Struct({ port: Schema.Int }))(server.address())
      const events = yield* makeEvents(HttpServerResponse.empty(), {
        backendUrl: `http://127.0.0.1:${port}`,
        onResponse: ({ request }) =>
          request.url.endsWith("/turns") ? Deferred.completeWith(responded, Effect.void) : Effect.void,
        receipt: Effect.as(Deferred.await(responded), HttpServerResponse.empty({ status: 409 }))
      })
      assert.containSubset(yield* Queue.take(events), processing)
      yield* Deferred.await(closed)
    }))

  it.effect("fails a run whose turn has no last line", () =>
    Effect.gen(function*() {
      for (const turn of [streamed([progress]), HttpServerResponse.text(encode([progress]))]) {
        const events = yield* makeEvents(turn)
        const last = yield* Stream.fromQueue(events).pipe(
          Stream.takeUntil(({ type }) => /completed|failed/.test(type)),
          Stream.runLast
        )
        assert.strictEqual(Option.getOrThrow(last).type, "failed")
      }
    }))

  it.effect("answers 429 with Retry-After while MODEL_RUNS runs work, and to none that it has", () =>
    Effect.gen(function*() {
      const made = yield* Deferred.make<void>()
      const turn = Effect.as(Deferred.await(made), HttpServerResponse.text(encode([completed])))
      const { events, start } = yield* makeCore(turn, { maxRuns: 2 })
      const ids = [0, 1, 2].map((index) => id.slice(0, -1) + index)
      const statuses = yield* Effect.forEach([...ids, ...ids], start)
      assert.deepStrictEqual(statuses.map(({ status }) => status), [202, 202, 429, 202, 202, 429])
      const busy = yield* Effect.fromNullishOr(statuses[2])
      assert.strictEqual(busy.headers["retry-after"], "1")
      assert.match(yield* busy.text, /MODEL_RUNS/)
      yield* Queue.takeN(events, 2)
      yield* Deferred.succeed(made, undefined)
      assert.containSubset(yield* Queue.take(events), completed)
      assert.strictEqual((yield* start(ids[2] ?? "")).status, 202)
    }))
})
