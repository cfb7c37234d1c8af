/** Reads per second of one task by `GET /api/tasks/{uuid}` and by `Tasks.get`, from one client process in one run. */
import { NodeHttpClient, NodeSocket } from "@effect/platform-node"
import { type Context, Effect, Layer, Redacted } from "effect"
import * as path from "node:path"
import { TaskService } from "../../src/http/client/EffectTaskClient.ts"
import { TaskServiceClient } from "../../src/http/client/promise/TaskServiceClient.ts"
import * as RpcClient from "../../src/http/client/RpcClient.ts"
import { internalToken, mint, Service } from "../kit/Service.ts"
import { numbersOf, repeat, until } from "./bench.ts"

const { seconds } = numbersOf({ seconds: 5 })
const concurrency = 32

const service = await Service.start({ DATA_DIR: path.resolve(import.meta.dirname, "../../.data/bench") })
const token = await mint("bench")
const client = new TaskServiceClient({ baseUrl: service.url, token })
const { uuid } = await client.tasks.run({ assistant_id: 1, input: [{ type: "text", text: "What is 6 * 7?" }] })

/** Reads per second. */
const measure = async (read: () => Promise<unknown>) => {
  await repeat(concurrency, until(1000), read)
  const begun = performance.now()
  const times = await repeat(concurrency, until(seconds * 1000), read)
  return times.length / ((performance.now() - begun) / 1000)
}

const measureEffect = <A, E, R>(read: Effect.Effect<A, E, R>) =>
  Effect.contextWith((context: Context.Context<R>) =>
    Effect.promise(() => measure(() => Effect.runPromiseWith(context)(read)))
  )

const options = { url: service.url, token: Redacted.make(internalToken) }
const layerPost = RpcClient.layerHttp(options).pipe(Layer.provide(NodeHttpClient.layerUndici))
const layerSocket = RpcClient.layerWebSocket(options).pipe(Layer.provide(NodeSocket.layerWebSocketConstructor))

const byRpc = Effect.gen(function*() {
  const internal = yield* RpcClient.make
  return yield* measureEffect(internal["Tasks.get"]({ sub: "bench", uuid }))
}).pipe(Effect.scoped)

const byRest = Effect.flatMap(TaskService, ({ tasks }) => measureEffect(tasks.get({ params: { uuid } })))
const layerRest = TaskService.layer({ baseUrl: service.url, token: Effect.succeed(Redacted.make(token)) }).pipe(
  Layer.provide(NodeHttpClient.layerUndici)
)

try {
  const results = [
    ["REST, Promise client", await measure(() => client.tasks.get(uuid))],
    ["REST, Effect client", await Effect.runPromise(Effect.provide(byRest, layerRest))],
    ["RPC by POST", await Effect.runPromise(Effect.provide(byRpc, layerPost))],
    ["RPC over one WebSocket", await Effect.runPromise(Effect.provide(byRpc, layerSocket))]
  ] as const
  for (const [name, rate] of results) {
    console.log(`${name.padEnd(24)} ${rate.toFixed(0).padStart(6)} reads/s  ${(rate / results[0][1]).toFixed(2)}×`)
  }
} finally {
  await service.stop()
}
