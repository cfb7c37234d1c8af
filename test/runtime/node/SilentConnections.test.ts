/** Connections that die silently: every client of another system loses one call and then uses a new connection. */
import { assert, describe, it } from "@effect/vitest"
import { Duration, Effect, Layer, Result } from "effect"
import { HttpClient } from "effect/http"
import { once } from "node:events"
import type { IncomingMessage, ServerResponse } from "node:http"
import * as http2 from "node:http2"
import * as https from "node:https"
import type { AddressInfo } from "node:net"
import * as ModelClient from "../../../src/runtime/builtin/backend/ModelClient.ts"
import * as Outgoing from "../../../src/runtime/node/Outgoing.ts"
import * as UndiciTransport from "../../../src/runtime/node/UndiciTransport.ts"
import { CoreTransport } from "../../../src/services/core/CoreClient.ts"
import { Proxy } from "../../chaos/Proxy.ts"
import { certificate, trustCertificate } from "../../kit/tls/trust.ts"

trustCertificate()

/** A server of the protocol, or of HTTP/1.1 if the client does not offer it, behind a proxy that can go silent. */
const target = (protocol: string) =>
  Effect.acquireRelease(
    Effect.promise(async () => {
      const respond = (
        request: IncomingMessage | http2.Http2ServerRequest,
        response: ServerResponse | http2.Http2ServerResponse
      ) => void request.resume().on("end", () => response.end("ok"))
      const server = protocol === "h2"
        ? http2.createSecureServer({ ...certificate, allowHTTP1: true }, respond)
        : https.createServer(certificate, respond)
      server.listen(0, "127.0.0.1")
      await once(server, "listening")
      const proxy = await new Proxy({ port: (server.address() as AddressInfo).port }).listen()
      return { proxy, server, url: `https://localhost:${proxy.port}/` }
    }),
    ({ proxy, server }) =>
      Effect.promise(async () => {
        await proxy.close()
        server.close()
      })
  )

/** The time of a call, which its caller ends. */
const timeout = Duration.seconds(1)

type Send = (url: string) => Effect.Effect<void, unknown>

const viaHttpClient = Effect.map(
  HttpClient.HttpClient,
  (http): Send => (url) =>
    HttpClient.withScope(http).get(url).pipe(Effect.flatMap(({ text }) => text), Effect.scoped, Effect.asVoid)
)

const viaTransport = Effect.map(
  CoreTransport,
  ({ post }): Send => (url) => Effect.asVoid(post(url, {}, [new TextEncoder().encode("{}")]))
)

const using = <R>(layer: Layer.Layer<R>, send: Effect.Effect<Send, never, R>) =>
  Effect.flatMap(Layer.build(layer), (context) => Effect.provideContext(send, context))

const clients = {
  "the core and TOKEN_URL": using(UndiciTransport.layer, viaTransport),
  "the backend, key sets and OTLP": using(Outgoing.layer, viaHttpClient),
  "model providers": using(ModelClient.layer, viaHttpClient)
}

describe.each(Object.entries(clients))("the client of %s", (_, client) => {
  it.live.each(["h2", "http/1.1"])(
    "loses one call to each connection that died silently, over %s",
    (protocol) =>
      Effect.gen(function*() {
        const { proxy, url } = yield* target(protocol)
        const send = yield* client
        const call = Effect.map(Effect.result(Effect.timeout(send(url), timeout)), Result.isSuccess)
        const calls = (count: number) => Effect.all(Array.from({ length: count }, () => call))
        assert.deepStrictEqual(yield* calls(2), [true, true])
        const open = proxy.size
        assert.isAtLeast(open, 1)
        proxy.silence()
        const [first, ...later] = yield* calls(1 + open)
        assert.isFalse(first, "the connection was kept")
        assert.isTrue(later.at(-1), "the calls after the lost ones")
      }).pipe(Effect.scoped)
  )
})
