import { assert, describe, it } from "@effect/vitest"
import { Duration, Effect, Layer, Result } from "effect"
import { once } from "node:events"
import * as fs from "node:fs"
import * as http from "node:http"
import * as https from "node:https"
import * as net from "node:net"
import * as path from "node:path"
import { text } from "node:stream/consumers"
import type * as tls from "node:tls"
import { gzipSync } from "node:zlib"
import * as AddressGuard from "../../../src/runtime/webhooks/AddressGuard.ts"
import * as WebhookResolver from "../../../src/runtime/webhooks/WebhookResolver.ts"
import * as WebhookTransport from "../../../src/runtime/webhooks/WebhookTransport.ts"
import { Settings } from "../../../src/services/settings/Settings.ts"
import { WebhookSender } from "../../../src/services/webhooks/WebhookSender.ts"
import { startNameServer } from "../../kit/NameServer.ts"

const pem = (name: string) => fs.readFileSync(path.join(import.meta.dirname, "../../kit/tls", name), "utf8")
const key = pem("key.pem")
const cert = pem("cert.pem")

interface Sending {
  readonly allowPrivate?: string
  readonly servers?: ReadonlyArray<string>
  readonly authority?: string
  readonly timeout?: Duration.Duration
}

const layerSettings = Settings.layer({ webhookTimeout: Duration.seconds(2) })

/** Posts to the URLs sequentially over one transport; returns each outcome and its duration in milliseconds. */
const send = async (
  urls: ReadonlyArray<string>,
  { allowPrivate = "true", authority, servers, timeout }: Sending = {}
) => {
  const resolver = WebhookResolver.make(AddressGuard.parse(allowPrivate), servers)
  const layer = WebhookTransport.layer(resolver, authority).pipe(Layer.provide(layerSettings))
  const body = new TextEncoder().encode(`{"é":1}`)
  const post = (url: string) =>
    Effect.flatMap(WebhookSender, (sender) => sender.post(url, { "x-task-uuid": "u" }, body)).pipe(
      Effect.timeoutOrElse({
        duration: timeout ?? Duration.seconds(2),
        orElse: () => Effect.succeed("timed_out" as const)
      }),
      Effect.result,
      Effect.map(Result.match({ onSuccess: (status) => status, onFailure: ({ error }) => error })),
      Effect.timed,
      Effect.map(([took, outcome]) => ({ outcome, took: Duration.toMillis(took) }))
    )
  return Effect.runPromise(Effect.forEach(urls, post).pipe(Effect.provide(layer)))
}

const outcomeOf = async (url: string, sending?: Sending) => (await send([url], sending))[0]?.outcome

/** A server for one test. `sockets` are its accepted connections. */
const serve = async <S extends net.Server>(server: S, host = "127.0.0.1") => {
  const sockets: Array<net.Socket> = []
  server.on("connection", (socket: net.Socket) => {
    sockets.push(socket)
    socket.on("error", () => {})
  })
  server.listen(0, host)
  await once(server, "listening")
  const { port } = server.address() as net.AddressInfo
  const close = async () => {
    for (const socket of sockets) socket.destroy()
    await new Promise<void>((resolve) => server.close(() => resolve()))
  }
  return { port, sockets, close, [Symbol.asyncDispose]: close }
}

const answering = (status: number, headers: http.OutgoingHttpHeaders = {}) =>
  http.createServer((request, response) => {
    request.resume().on("end", () => response.writeHead(status, headers).end())
  })

describe("a POST to a target", () => {
  it("has exactly the expected headers and body, over HTTP/1.1", async () => {
    const seen: Array<{ readonly head: http.IncomingMessage; readonly body: string }> = []
    await using target = await serve(http.createServer(async (request, response) => {
      seen.push({ head: request, body: await text(request) })
      response.writeHead(204).end()
    }))
    assert.strictEqual(await outcomeOf(`http://ann:p%40ss@127.0.0.1:${target.port}/hook?a=1#part`), 204)
    const [{ body, head }] = seen as [typeof seen[number]]
    assert.strictEqual(body, `{"é":1}`)
    assert.deepStrictEqual([head.method, head.url, head.httpVersion], ["POST", "/hook?a=1", "1.1"])
    assert.deepStrictEqual(head.headers, {
      host: `127.0.0.1:${target.port}`,
      connection: "keep-alive",
      authorization: `Basic ${Buffer.from("ann:p@ss").toString("base64")}`,
      "x-task-uuid": "u",
      "content-length": "8"
    })
  })

  it("sends the URL's credentials percent-decoded, or verbatim when they are malformed", async () => {
    const seen: Array<string | undefined> = []
    await using target = await serve(http.createServer((request, response) => {
      seen.push(request.headers.authorization)
      response.end()
    }))
    for (const user of ["a%C3%A9:%00", "%zz:100%"]) {
      assert.strictEqual(await outcomeOf(`http://${user}@127.0.0.1:${target.port}/`), 200)
    }
    const basic = (credentials: string) => `Basic ${Buffer.from(credentials).toString("base64")}`
    assert.deepStrictEqual(seen, [basic("a\u00e9:\0"), basic("%zz:100%")])
  })

  it("returns the status, follows no redirects and does not retry", async () => {
    let requests = 0
    await using other = await serve(http.createServer((_, response) => {
      requests += 1
      response.end()
    }))
    for (const status of [200, 201, 299, 301, 302, 307, 308, 400, 410, 429, 500, 503]) {
      await using target = await serve(answering(status, { location: `http://127.0.0.1:${other.port}/` }))
      assert.strictEqual(await outcomeOf(`http://127.0.0.1:${target.port}/`), status)
    }
    assert.strictEqual(requests, 0)
    await using broken = await serve(net.createServer((socket) => void socket.once("data", () => socket.destroy())))
    assert.strictEqual(await outcomeOf(`http://127.0.0.1:${broken.port}/`), "connection_failed")
    assert.strictEqual(broken.sockets.length, 1)
  })

  it("classifies failed attempts", async () => {
    await using closed = await serve(net.createServer())
    await closed.close()
    assert.strictEqual(await outcomeOf(`http://127.0.0.1:${closed.port}/`), "connection_failed")
    await using noise = await serve(
      net.createServer((socket) => void socket.once("data", () => socket.end("hello\r\n\r\n")))
    )
    assert.strictEqual(await outcomeOf(`http://127.0.0.1:${noise.port}/`), "broken_answer")
    await using names = await serve(net.createServer())
    const nowhere = { servers: [`127.0.0.1:${names.port}`] }
    const { outcome } =
      (await send(["http://no-such-name.example/"], { ...nowhere, timeout: Duration.seconds(30) }))[0]!
    assert.strictEqual(outcome, "name_not_resolved")
  }, 30_000)
})

describe("a hostile target", () => {
  const measure = async (server: net.Server, scheme = "http") => {
    await using target = await serve(server)
    const [measured] = await send([`${scheme}://localhost:${target.port}/`], { timeout: Duration.millis(600) })
    return measured!
  }
  const drip = (socket: net.Socket) => {
    socket.write("HTTP/1.1 200 OK\r\n")
    const dripping = setInterval(() => socket.write("x-drip: 1\r\n"), 50)
    socket.on("close", () => clearInterval(dripping))
  }

  it.each([
    ["never responds", () => {}, "http"],
    ["drips response headers", drip, "http"],
    ["stalls the TLS handshake", () => {}, "https"]
  ])("times out when it %s", async (_, onConnection, scheme) => {
    const { outcome, took } = await measure(net.createServer(onConnection), scheme)
    assert.strictEqual(outcome, "timed_out")
    assert.isBelow(took, 3000)
  })

  it("delivers its status and loses the connection when it drips the body", async () => {
    let closed = false
    const dripping = net.createServer((socket) => {
      socket.write("HTTP/1.1 200 OK\r\ncontent-length: 1000000\r\n\r\n")
      const drip = setInterval(() => socket.write("x"), 20)
      socket.on("error", () => {}).on("close", () => {
        clearInterval(drip)
        closed = true
      })
    })
    await using target = await serve(dripping)
    await using silent = await serve(net.createServer())
    const urls = [`http://127.0.0.1:${target.port}/`, `http://127.0.0.1:${silent.port}/`]
    const [drip, silence] = await send(urls, { timeout: Duration.millis(1500) })
    assert.strictEqual(drip?.outcome, 200)
    assert.strictEqual(silence?.outcome, "timed_out")
    assert.isBelow(drip!.took, silence!.took / 2)
    assert.isTrue(closed)
  })

  it("has at most 64 MiB of a 1 GiB body read, and nothing decompressed", async () => {
    const chunk = Buffer.alloc(1024 * 1024)
    for (
      const [headers, piece] of [[{}, chunk], [{ "content-encoding": "gzip" }, gzipSync(Buffer.alloc(1e8))]] as const
    ) {
      let sent = 0
      const gushing = http.createServer((_, response) => {
        response.writeHead(200, headers)
        const more = () => {
          while (sent < 1024 ** 3 && response.write(piece)) sent += piece.length
          if (sent >= 1024 ** 3) response.end()
        }
        response.on("drain", more)
        more()
      })
      const before = process.memoryUsage.rss()
      assert.strictEqual((await measure(gushing)).outcome, 200)
      assert.isBelow(sent, 64 * 1024 * 1024)
      assert.isBelow(process.memoryUsage.rss() - before, 256 * 1024 * 1024)
    }
  })

  it("fails with broken_answer when its headers exceed the limit", async () => {
    const endless = net.createServer((socket) => {
      socket.write("HTTP/1.1 200 OK\r\n")
      socket.write(`x-long: ${"x".repeat(64 * 1024)}\r\n`)
    })
    assert.strictEqual((await measure(endless)).outcome, "broken_answer")
  })
})

describe("TLS", () => {
  const secure = (options: tls.TlsOptions = {}) =>
    https.createServer({ key, cert, ...options }, (request, response) => {
      request.resume().on("end", () => response.writeHead(204).end())
    })

  it("verifies certificate and host name, requires TLS 1.2, and sends SNI", async () => {
    const names: Array<string | false | null> = []
    await using target = await serve(secure().on("secureConnection", (socket) => names.push(socket.servername)))
    const url = `https://localhost:${target.port}/`
    assert.strictEqual(await outcomeOf(url), "tls_failed")
    assert.strictEqual(await outcomeOf(url, { authority: cert }), 204)
    assert.strictEqual(await outcomeOf(`https://127.0.0.1:${target.port}/`, { authority: cert }), "tls_failed")
    assert.include(names, "localhost")
    await using old = await serve(secure({ maxVersion: "TLSv1.1", minVersion: "TLSv1", ciphers: "DEFAULT@SECLEVEL=0" }))
    assert.strictEqual(await outcomeOf(`https://localhost:${old.port}/`, { authority: cert }), "tls_failed")
    await using newer = await serve(secure({ minVersion: "TLSv1.3" }))
    assert.strictEqual(await outcomeOf(`https://localhost:${newer.port}/`, { authority: cert }), 204)
  })
})

describe("a host name", () => {
  /** One target on every loopback address: the operator allows 127.0.0.2, and no other may be reached. */
  const serveAll = async () => {
    const reached: Array<string | undefined> = []
    const server = answering(204).on("connection", ({ localAddress }) => void reached.push(localAddress))
    const target = await serve(server, "0.0.0.0")
    return { port: target.port, reached, [Symbol.asyncDispose]: target.close }
  }

  it("is connected at the checked address when its DNS answer changes to loopback", async () => {
    await using target = await serveAll()
    const names = await startNameServer((question) => [question === 1 ? "127.0.0.2" : "127.0.0.1"])
    const url = `http://rebinding.test:${target.port}/`
    const outcomes = await send([url, url, url], { allowPrivate: "127.0.0.2/32", servers: [names.server] })
    assert.deepStrictEqual(outcomes.map(({ outcome }) => outcome), [204, "address_refused", "address_refused"])
    assert.strictEqual(names.asked(), 3)
    assert.deepStrictEqual(target.reached, ["127.0.0.2"])
    await names.close()
  })

  it("is refused when one of its addresses is refused", async () => {
    await using target = await serveAll()
    const names = await startNameServer(() => ["127.0.0.2", "127.0.0.1"])
    const url = `http://mixed.test:${target.port}/`
    assert.strictEqual(
      await outcomeOf(url, { allowPrivate: "127.0.0.2/32", servers: [names.server] }),
      "address_refused"
    )
    assert.deepStrictEqual(target.reached, [])
    await names.close()
  })
})
