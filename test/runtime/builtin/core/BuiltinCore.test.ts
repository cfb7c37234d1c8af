import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer, Queue, Redacted, Stream } from "effect"
import { HttpClient, HttpClientRequest, HttpRouter, HttpServerRequest, HttpServerResponse } from "effect/http"
import * as BuiltinCore from "../../../../src/runtime/builtin/core/BuiltinCore.ts"
import * as InProcess from "../../../../src/runtime/node/InProcess.ts"
import * as PooledRandom from "../../../../src/runtime/node/PooledRandom.ts"

const token = Redacted.make("token")
const [core, backend, service] = ["http://core.test", "http://backend.test", "http://service.test"]
const id = "01920000-0000-7000-8000-000000000000"

/** The events of a run whose turn consists of `lines`. */
const makeEvents = Effect.fnUntraced(function*(lines: ReadonlyArray<object>) {
  const inProcess = InProcess.make()
  const events = yield* Queue.unbounded<unknown>()
  const turn = Stream.encodeText(Stream.make(lines.map((line) => `${JSON.stringify(line)}\n`).join("")))
  const peers = HttpRouter.use((router) =>
    Effect.all([
      router.add("POST", "/chats", HttpServerResponse.jsonUnsafe({ id: "chat" })),
      router.add("POST", "/chats/chat/turns", HttpServerResponse.stream(turn)),
      router.add(
        "POST",
        "/events",
        HttpServerRequest.HttpServerRequest.pipe(
          Effect.flatMap(({ json }) => Effect.orDie(json)),
          Effect.flatMap((event) => Queue.offer(events, event)),
          Effect.as(HttpServerResponse.empty())
        )
      )
    ], { discard: true })
  )
  const routes = BuiltinCore.layer({ backendUrl: backend, internalToken: token, token, eventsOrigin: service })
  yield* inProcess.serve(backend, yield* InProcess.toApp(peers))
  yield* inProcess.serve(service, yield* InProcess.toApp(peers))
  yield* inProcess.serve(
    core,
    yield* InProcess.toApp(Layer.provide(routes, [inProcess.layerClient, PooledRandom.layer]))
  )
  const http = yield* Effect.provide(HttpClient.HttpClient, inProcess.layerClient)
  const started = yield* HttpClientRequest.post(`${core}/runs`).pipe(
    HttpClientRequest.bearerToken(token),
    HttpClientRequest.bodyJsonUnsafe({
      task_id: id,
      run_id: id,
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
  assert.strictEqual(started.status, 202)
  return events
})

describe("BuiltinCore", () => {
  it.effect("never drops the last line of a turn, although others follow it", () =>
    Effect.gen(function*() {
      const progress = { type: "progress", turn: { output: [] } }
      const turn = { output: [{ type: "text", text: "Because." }] }
      const events = yield* makeEvents([progress, { type: "completed", turn }, progress])
      const received = yield* Queue.takeN(events, 2)
      assert.containSubset(received, [{ type: "processing" }, { type: "completed", turn }])
    }))
})
