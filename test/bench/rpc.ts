/** Reads per second of one task by `GET /api/tasks/{uuid}` and by `Tasks.get`, from one client process in one run. */
import { NodeHttpClient, NodeSocket } from "@effect/platform-node"
import { Effect, Layer, Redacted } from "effect"
import * as path from "node:path"
import { TaskService } from "../../src/http/client/EffectTaskClient.ts"
import { TaskServiceClient } from "../../src/http/client/promise/TaskServiceClient.ts"
import * as RpcClient from "../../src/http/client/RpcClient.ts"
import { internalToken } from "../kit/ScriptedCore.ts"
import { mint, Service } from "../kit/Service.ts"

const seconds = Number(process.env["SECONDS"] ?? 5)
const concurrency = 32

const service = await Service.start({ DATA_DIR: path.resolve(import.meta.dirname, "../../.data/bench") })
const token = await mint("bench")
const client = new TaskServiceClient({ baseUrl: service.url, token })
const { uuid } = await client.tasks.run({ assistant_id: 1, input: [{ type: "text", text: "What is 6 * 7?" }] })

/** Reads in a fixed number of concurrent loops. */
const measure = async (read: () => Promise<unknown>) => {
  const count = async (until: number) => {
    let calls = 0
    await Promise.all(Array.from({ length: concurrency }, async () => {
      while (performance.now() < until) {
        await read()
        calls++
      }
    }))
    return calls
  }
  await count(performance.now() + 1000)
  const begun = performance.now()
  const calls = await count(begun + seconds * 1000)
  return calls / ((performance.now() - begun) / 1000)
}

const options = { url: service.url, token: Redacted.make(internalToken) }
const layerPost = RpcClient.layerHttp(options).pipe(Layer.provide(NodeHttpClient.layerUndici))
const layerSocket = RpcClient.layerWebSocket(options).pipe(Layer.provide(NodeSocket.layerWebSocketConstructor))

const rpc = (layer: typeof layerPost) =>
  Effect.runPromise(
    Effect.scoped(
      Effect.gen(function*() {
        const internal = yield* RpcClient.make
        const context = yield* Effect.context()
        const read = () => Effect.runPromiseWith(context)(internal["Tasks.get"]({ sub: "bench", uuid }))
        return yield* Effect.promise(() => measure(read))
      }).pipe(Effect.provide(layer))
    )
  )

const effectRest = () =>
  Effect.runPromise(
    Effect.gen(function*() {
      const { tasks } = yield* TaskService
      const context = yield* Effect.context()
      const read = () => Effect.runPromiseWith(context)(tasks.get({ params: { uuid }, query: {} }))
      return yield* Effect.promise(() => measure(read))
    }).pipe(
      Effect.provide(
        TaskService.layer({ baseUrl: service.url, token: Effect.succeed(Redacted.make(token)) }).pipe(
          Layer.provide(NodeHttpClient.layerUndici)
        )
      )
    )
  )

try {
  const results = [
    ["REST, Promise client", await measure(() => client.tasks.get(uuid))],
    ["REST, Effect client", await effectRest()],
    ["RPC by POST", await rpc(layerPost)],
    ["RPC over one WebSocket", await rpc(layerSocket)]
  ] as const
  for (const [name, rate] of results) {
    console.log(`${name.padEnd(24)} ${rate.toFixed(0).padStart(6)} reads/s  ${(rate / results[0][1]).toFixed(2)}×`)
  }
} finally {
  await service.stop()
}
