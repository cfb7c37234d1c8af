import * as NodeHttpServer from "@effect/platform-node/NodeHttpServer"
import { describe, it } from "@effect/vitest"
import { Effect, Latch, Layer, Stream } from "effect"
import { HttpServer, HttpServerResponse } from "effect/http"
import { once } from "node:events"
import { createServer } from "node:http"
import { connect, type Socket } from "node:net"
import { cutWhen, endWhen } from "../../../src/services/timing/StreamEnds.ts"

const chunk = new Uint8Array(256 * 1024)
const endless = Stream.forever(Stream.succeed(chunk))

/** Serves a stream to one client, which reads nothing yet. */
const open = Effect.fnUntraced(function*(streamUntil: (end: Effect.Effect<void>) => Stream.Stream<Uint8Array>) {
  const end = Latch.makeUnsafe()
  const released = Latch.makeUnsafe()
  const server = createServer()
  const stream = Stream.ensuring(streamUntil(end.await), released.open)
  yield* Layer.build(
    HttpServer.serve(Effect.succeed(HttpServerResponse.stream(stream))).pipe(
      Layer.provide(NodeHttpServer.layerServer(() => server, { port: 0, host: "127.0.0.1" }))
    )
  )
  const accepted = once(server, "connection")
  const { port } = server.address() as { readonly port: number }
  const client = connect(port, "127.0.0.1").on("error", () => {}).pause()
  yield* Effect.addFinalizer(() => Effect.sync(() => client.destroy()))
  client.write("GET / HTTP/1.1\r\nHost: here\r\n\r\n")
  const [socket] = yield* Effect.promise(() => accepted)
  return { client, socket: socket as Socket, end: end.open, released: released.await }
})

const untilFull = (socket: Socket) =>
  Effect.repeat(Effect.delay(Effect.sync(() => socket.writableLength), "50 millis"), {
    until: (waiting) => waiting > chunk.length / 2
  })

describe("a stream that ends with an effect", () => {
  it.live.each([["cutWhen", cutWhen], ["endWhen", endWhen]] as const)(
    "%s releases what a client holds that reads nothing",
    ([, until]) =>
      Effect.gen(function*() {
        const { end, released, socket } = yield* open((end) => until(endless, end))
        yield* untilFull(socket)
        yield* end
        yield* Effect.timeout(released, "10 seconds")
      })
  )

  it.live("endWhen lets a client that reads have the end", () =>
    Effect.gen(function*() {
      const { client, end } = yield* open((end) => endWhen(Stream.concat(Stream.succeed(chunk), Stream.never), end))
      let text = ""
      client.on("data", (bytes) => text += bytes.toString("latin1").slice(-8)).resume()
      yield* Effect.delay(end, "100 millis")
      yield* Effect.repeat(Effect.delay(Effect.sync(() => text), "20 millis"), {
        until: (text) => text.endsWith("\r\n0\r\n\r\n")
      }).pipe(Effect.timeout("10 seconds"))
    }))
})
