/**
 * Reads per second of one task by `GET /api/tasks/{uuid}` and by `Tasks.get`, in alternating rounds, with the CPU time that a read
 * costs the service and the client. A bare HTTP client shows what the service can do, the others what a program gets.
 */
import { NodeHttpClient, NodeSocket } from "@effect/platform-node"
import autocannon from "autocannon"
import { Effect, Layer, Redacted, Scope } from "effect"
import * as path from "node:path"
import { TaskService } from "../../src/http/client/EffectTaskClient.ts"
import { TaskServiceClient } from "../../src/http/client/promise/TaskServiceClient.ts"
import * as RpcClient from "../../src/http/client/RpcClient.ts"
import { internalToken, mint, Service } from "../kit/Service.ts"
import { median } from "../kit/statistics.ts"
import { numbersOf, repeat, until } from "./bench.ts"
import { cpuOfProcess } from "./processes.ts"

const { rounds, seconds } = numbersOf({ rounds: 5, seconds: 1 })
const concurrency = 32

const service = await Service.start({ DATA_DIR: path.resolve(import.meta.dirname, "../../.data/bench") })
const token = await mint("bench")
const client = new TaskServiceClient({ baseUrl: service.url, token })
const { uuid } = await client.tasks.run({ assistant_id: 1, input: [{ type: "text", text: "What is 6 * 7?" }] })

/** Reads for a time in seconds and returns their number. */
type Reads = (duration: number) => Promise<number>

const repeated = (read: () => Promise<unknown>): Reads => async (duration) =>
  (await repeat(concurrency, until(duration * 1000), read)).length

const bare = (request: Pick<autocannon.Options, "url" | "method" | "headers" | "body">): Reads => async (duration) => {
  const { errors, non2xx, requests } = await autocannon({ connections: concurrency, duration, ...request })
  if (errors + non2xx > 0) throw new Error(`${errors} errors, ${non2xx} other responses`)
  return requests.total
}

const scope = Scope.makeUnsafe()

/** A client of Effect whose connection stays open for all rounds. */
const effectful = async <A, E, R>(read: Effect.Effect<Effect.Effect<A, E>, never, R>, layer: Layer.Layer<R>) => {
  const context = await Effect.runPromise(Layer.buildWithScope(layer, scope))
  const one = await Effect.runPromise(Effect.provideContext(read, context))
  return repeated(() => Effect.runPromise(one))
}

const options = { url: service.url, token: Redacted.make(internalToken) }
const layerPost = RpcClient.layerHttp(options).pipe(Layer.provide(NodeHttpClient.layerUndici))
const layerSocket = RpcClient.layerWebSocket(options).pipe(Layer.provide(NodeSocket.layerWebSocketConstructor))
const byRpc = Effect.map(RpcClient.make, (internal) => internal["Tasks.get"]({ sub: "bench", uuid })).pipe(
  Scope.provide(scope)
)

const layerRest = TaskService.layer({ baseUrl: service.url, token: Effect.succeed(Redacted.make(token)) }).pipe(
  Layer.provide(NodeHttpClient.layerUndici)
)
const byRest = Effect.map(TaskService, ({ tasks }) => tasks.get({ params: { uuid } }))

const call = { _tag: "Request", id: "1", tag: "Tasks.get", payload: { sub: "bench", uuid }, headers: [] }

/** Each is compared with the first that has the same client side. */
const sides: ReadonlyArray<readonly [name: string, reference: string, reads: Reads]> = [
  [
    "REST, bare client",
    "REST, bare client",
    bare({ url: `${service.url}/api/tasks/${uuid}`, headers: { authorization: `Bearer ${token}` } })
  ],
  [
    "RPC by POST, bare client",
    "REST, bare client",
    bare({
      url: service.url + "/rpc",
      method: "POST",
      headers: { authorization: `Bearer ${internalToken}`, "content-type": "application/ndjson" },
      body: JSON.stringify(call) + "\n"
    })
  ],
  ["REST, Promise client", "REST, Promise client", repeated(() => client.tasks.get(uuid))],
  ["REST, Effect client", "REST, Promise client", await effectful(byRest, layerRest)],
  ["RPC by POST", "REST, Promise client", await effectful(byRpc, layerPost)],
  ["RPC over one WebSocket", "REST, Promise client", await effectful(byRpc, layerSocket)]
]

interface Result {
  /** Reads per second. */
  readonly rate: number
  /** CPU microseconds of one read. */
  readonly service: number
  readonly client: number
}

const measure = async (reads: Reads): Promise<Result> => {
  const [begun, serviceCpu, clientCpu] = [performance.now(), cpuOfProcess(service.process.pid!), process.cpuUsage()]
  const count = await reads(seconds)
  const { system, user } = process.cpuUsage(clientCpu)
  return {
    rate: count / ((performance.now() - begun) / 1000),
    service: (cpuOfProcess(service.process.pid!) - serviceCpu) * 1000 / count,
    client: (user + system) / count
  }
}

const results = new Map(sides.map(([name]): [string, Array<Result>] => [name, []]))
try {
  for (let round = -1; round < rounds; round++) {
    for (const [name, , reads] of sides) {
      const result = await measure(reads)
      if (round >= 0) results.get(name)!.push(result)
    }
  }
} finally {
  await service.stop()
}
for (const [name, reference] of sides) {
  const of = (field: keyof Result) => median(results.get(name)!.map((result) => result[field]))
  const ratio = median(results.get(name)!.map(({ rate }, round) => rate / results.get(reference)![round]!.rate))
  console.log(
    `${name.padEnd(24)} ${of("rate").toFixed(0).padStart(6)} reads/s  ${ratio.toFixed(2)}×  CPU of the service `
      + `${of("service").toFixed(0)} µs, of the client ${of("client").toFixed(0)} µs`
  )
}
process.exit()
