/** The port between nodes, and strangers who reach it. */
import { assert, it } from "@effect/vitest"
import { Effect, Exit, Layer } from "effect"
import { connect, createServer } from "node:net"
import * as ClusterPort from "../../../src/runtime/cluster/ClusterPort.ts"
import { freePort } from "../../kit/Service.ts"

const listening = Effect.gen(function*() {
  const address = { host: "127.0.0.1", port: yield* Effect.promise(freePort) }
  yield* Layer.build(ClusterPort.layer(address, 3000))
  return address
})

/** What a stranger who sends `bytes` and never closes receives until the connection is closed. */
const intrude = (port: number, bytes: number) =>
  Effect.promise(() =>
    new Promise<string>((resolve) => {
      let received = ""
      const socket = connect({ port, host: "127.0.0.1", allowHalfOpen: true })
      socket.on("data", (data) => received += data)
      socket.on("error", () => {})
      socket.on("close", () => resolve(received))
      socket.on("end", () => {
        // Writing to a closed connection ends it.
        const timer = setInterval(() => socket.write("x"), 10)
        socket.once("close", () => clearInterval(timer))
      })
      if (bytes > 0) socket.write(Buffer.alloc(bytes, 1))
    })
  )

it.live("a node answers the ping of another, and one that has ended does not", () =>
  Effect.gen(function*() {
    const address = yield* Effect.scoped(Effect.tap(listening, ClusterPort.ping))
    assert.isTrue(Exit.isFailure(yield* Effect.exit(ClusterPort.ping(address))))
  }))

it.live("a process that accepts connections and says nothing is neither running nor ended", () =>
  Effect.gen(function*() {
    const port = yield* Effect.promise(freePort)
    const server = createServer(() => {}).listen(port, "127.0.0.1")
    yield* Effect.addFinalizer(() => Effect.sync(() => server.close()))
    const address = { host: "127.0.0.1", port }
    assert.isTrue((yield* Effect.timeoutOption(ClusterPort.ping(address), "200 millis"))._tag === "None")
  }).pipe(Effect.scoped))

it.live("a stranger's connections are closed at once, whatever they send, and nodes are still answered", () =>
  Effect.gen(function*() {
    const address = yield* listening
    const before = process.memoryUsage().rss
    for (const bytes of [0, 1, 1024 * 1024]) {
      const strangers = yield* Effect.all(Array.from({ length: 150 }, () => intrude(address.port, bytes)), {
        concurrency: "unbounded"
      })
      // A reset may overtake the greeting.
      for (const received of strangers) assert.include(["async-task-service 3000\n", ""], received)
      assert.strictEqual(yield* ClusterPort.ping(address), 3000)
    }
    assert.isBelow(process.memoryUsage().rss - before, 256 * 1024 * 1024)
  }).pipe(Effect.scoped))

it.live("a port that is taken is reported", () =>
  Effect.gen(function*() {
    const address = yield* listening
    const error = yield* Effect.flip(Layer.build(ClusterPort.layer(address, 3000)))
    assert.strictEqual(error._tag, "ClusterPortError")
  }).pipe(Effect.scoped))
