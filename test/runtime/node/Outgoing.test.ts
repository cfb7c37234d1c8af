/** Calls to other systems through a real proxy. Names of targets exist only for the proxy. */
import { assert, describe, it } from "@effect/vitest"
import { Duration, Effect, Layer, Result } from "effect"
import { HttpClient, HttpClientRequest } from "effect/http"
import { once } from "node:events"
import * as http from "node:http"
import * as https from "node:https"
import type { AddressInfo } from "node:net"
import type * as tls from "node:tls"
import * as Outgoing from "../../../src/runtime/node/Outgoing.ts"
import { none, parseExceptions, parseProxy, Proxies } from "../../../src/runtime/node/Proxies.ts"
import * as UndiciTransport from "../../../src/runtime/node/UndiciTransport.ts"
import * as AddressGuard from "../../../src/runtime/webhooks/AddressGuard.ts"
import * as WebhookResolver from "../../../src/runtime/webhooks/WebhookResolver.ts"
import * as WebhookTransport from "../../../src/runtime/webhooks/WebhookTransport.ts"
import { CoreTransport } from "../../../src/services/core/CoreClient.ts"
import { Settings } from "../../../src/services/settings/Settings.ts"
import { rootCauseMessage } from "../../../src/services/telemetry/RootCause.ts"
import { WebhookSender } from "../../../src/services/webhooks/WebhookSender.ts"
import { Distant } from "../../kit/Distant.ts"
import { ForwardProxy } from "../../kit/ForwardProxy.ts"
import { startNameServer } from "../../kit/NameServer.ts"
import { certificate, trustCertificate } from "../../kit/tls/trust.ts"

trustCertificate()

interface Seen {
  readonly line: string
  readonly host: string | undefined
  readonly servername: string | false | null | undefined
  readonly headers: http.IncomingHttpHeaders
}

/** A target on loopback. */
const serve = async (scheme: "http" | "https", address = "127.0.0.1") => {
  const seen: Array<Seen> = []
  const respond: http.RequestListener = ({ headers, method, socket, url }, response) => {
    const { servername } = socket as tls.TLSSocket & { readonly servername?: string }
    seen.push({ line: `${method} ${url}`, host: headers.host, servername, headers })
    response.end("done")
  }
  const server = scheme === "http" ? http.createServer(respond) : https.createServer(certificate, respond)
  server.listen(0, address)
  await once(server, "listening")
  const { port } = server.address() as AddressInfo
  return {
    port,
    seen,
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    }
  }
}

const through = (url: string, noProxy = "") => ({
  http: parseProxy(url),
  https: parseProxy(url),
  exceptions: parseExceptions(noProxy)
})

const timeout = Duration.seconds(3)

/** The bodies of responses, or why there are none. */
const get = (urls: ReadonlyArray<string>, proxies: typeof Proxies.Service) =>
  HttpClient.HttpClient.pipe(
    Effect.flatMap((client) =>
      Effect.forEach(urls, (url) =>
        client.execute(HttpClientRequest.post(url).pipe(HttpClientRequest.bodyText("{}"))).pipe(
          Effect.flatMap(({ status, text }) =>
            Effect.map(text, (body) => `${status} ${body}`)
          ),
          Effect.timeout(timeout),
          Effect.match({ onFailure: rootCauseMessage, onSuccess: (found) => found })
        ))
    ),
    Effect.provide(Outgoing.layer),
    Effect.provideService(Proxies, proxies),
    Effect.runPromise
  )

describe("a call through a proxy", () => {
  it("to an https URL is a tunnel to the name, with the proxy's credentials for the proxy only", async () => {
    await using target = await serve("https")
    await using proxy = await ForwardProxy.listen()
    const url = `https://target.test:${target.port}/a?b`
    assert.deepStrictEqual(await get([url, url], through(proxy.url("ann:p%40ss"))), ["200 done", "200 done"])
    const authorization = `Basic ${Buffer.from("ann:p@ss").toString("base64")}`
    for (const asked of proxy.asked) {
      assert.deepStrictEqual(asked, { line: `CONNECT target.test:${target.port}`, authorization })
    }
    const [{ headers, ...seen }] = target.seen as [Seen]
    assert.deepStrictEqual(seen, {
      line: "POST /a?b",
      host: `target.test:${target.port}`,
      servername: "target.test"
    })
    assert.notProperty(headers, "proxy-authorization")
  })

  it("to an http URL is the request with the whole URL", async () => {
    await using target = await serve("http")
    await using proxy = await ForwardProxy.listen()
    const url = `http://target.test:${target.port}/a?b`
    assert.deepStrictEqual(await get([url], through(proxy.url("ann:secret"))), ["200 done"])
    assert.deepStrictEqual(proxy.asked.map(({ line }) => line), [`POST ${url}`])
    assert.deepStrictEqual(target.seen.map(({ host }) => host), [`target.test:${target.port}`])
  })

  it.each(["http", "https"] as const)("that is reached by TLS works for %s", async (scheme) => {
    await using target = await serve(scheme)
    await using proxy = await ForwardProxy.listen(certificate)
    const url = `${scheme}://target.test:${target.port}/`
    assert.deepStrictEqual(await get([url], through(proxy.url("", "localhost"))), ["200 done"])
    // The certificate is for localhost.
    const [failure = ""] = await get([url], through(proxy.url("", "127.0.0.1")))
    assert.match(failure, /altnames|IP/)
  })

  it("names the proxy when it refuses, answers never, or is away", async () => {
    await using proxy = await ForwardProxy.listen()
    const url = "https://target.test:9/"
    proxy.refusal = 407
    const [refused] = await get([url], through(proxy.url("ann:secret")))
    assert.strictEqual(refused, `the proxy ${proxy.url()} answers 407 to CONNECT target.test:9`)
    const [forwarded = ""] = await get(["http://target.test:9/"], through(proxy.url()))
    assert.match(forwarded, /Proxy Authentication Required|^407/)
    proxy.refusal = 0
    const startedAt = performance.now()
    assert.lengthOf(await get([url], through(proxy.url())), 1)
    assert.isBelow(performance.now() - startedAt, 4000)
    const [away = ""] = await get([url], through("http://127.0.0.1:9"))
    assert.include(away, "ECONNREFUSED 127.0.0.1:9")
  })

  it("is not made for loopback and NO_PROXY", async () => {
    await using target = await serve("http")
    await using proxy = await ForwardProxy.listen()
    const proxies = through(proxy.url(), "target.invalid")
    assert.deepStrictEqual(
      await get([`http://localhost:${target.port}/`, `http://127.0.0.1:${target.port}/`], proxies),
      [
        "200 done",
        "200 done"
      ]
    )
    const [unresolved = ""] = await get([`http://target.invalid:${target.port}/`], proxies)
    assert.match(unresolved, /ENOTFOUND|EAI_AGAIN/)
    assert.deepStrictEqual(proxy.asked, [])
  })

  it("to the core is probed only where a tunnel is what calls use", async () => {
    await using proxy = await ForwardProxy.listen()
    proxy.refusal = 403
    const connect = (url: string) =>
      Effect.flatMap(CoreTransport, (transport) => transport.connect(url)).pipe(
        Effect.match({ onFailure: ({ reason }) => reason, onSuccess: () => "reached" }),
        Effect.provide(UndiciTransport.layer),
        Effect.provideService(Proxies, through(proxy.url())),
        Effect.runPromise
      )
    assert.strictEqual(await connect("http://core.test:8080"), "reached")
    assert.deepStrictEqual(proxy.asked, [])
    assert.include(await connect("https://core.test"), "answers 403 to CONNECT core.test:443")
    assert.include(await connect("http://[::1]:9"), "ECONNREFUSED")
  })

  it("starts runs", async () => {
    await using target = await serve("https")
    await using proxy = await ForwardProxy.listen()
    const { status } = await Effect.flatMap(
      CoreTransport,
      ({ post }) => post(`https://target.test:${target.port}/runs`, {}, [new TextEncoder().encode("{}")])
    ).pipe(
      Effect.provide(UndiciTransport.layer),
      Effect.provideService(Proxies, through(proxy.url())),
      Effect.runPromise
    )
    assert.strictEqual(status, 200)
    assert.lengthOf(proxy.asked, 1)
  })

  it.each<[string, http.RequestListener]>([
    ["that is long", (_, response) => void response.writeHead(202).end("x".repeat(5_000_000))],
    ["that is cut off", ({ socket }, response) => {
      response.writeHead(202, { "content-length": "100" }).write("{")
      setTimeout(() => socket.destroy(), 50)
    }],
    ["without an end", (_, response) => void response.writeHead(202).write("{")]
  ])("are started by an answer %s", { timeout: 30_000 }, async (_, respond) => {
    const server = http.createServer(respond)
    await once(server.listen(0, "127.0.0.1"), "listening")
    const { port } = server.address() as AddressInfo
    const answer = await Effect.flatMap(
      CoreTransport,
      ({ post }) => post(`http://127.0.0.1:${port}/runs`, {}, [new TextEncoder().encode("{}")])
    ).pipe(Effect.provide(UndiciTransport.layer), Effect.runPromise)
    server.closeAllConnections()
    server.close()
    assert.deepStrictEqual(answer, { status: 202, retryAfter: undefined, body: "" })
  })
})

describe("a webhook", () => {
  interface Sending {
    readonly proxies?: typeof Proxies.Service
    readonly addresses?: ReadonlyArray<string>
    readonly allowPrivate?: string
    readonly proxyResolves?: boolean
  }

  /** The status, or the error of the attempt. */
  const post = async (
    url: string,
    { addresses = ["127.0.0.2"], allowPrivate = "127.0.0.0/8", proxies = none, proxyResolves = false }: Sending
  ) => {
    const names = await startNameServer(() => addresses)
    const resolver = WebhookResolver.make(AddressGuard.parse(allowPrivate), [names.server], proxyResolves)
    const outcome = await Effect.flatMap(
      WebhookSender,
      (sender) => sender.post(url, {}, new TextEncoder().encode("{}"))
    ).pipe(
      Effect.timeoutOrElse({ duration: timeout, orElse: () => Effect.succeed("timed_out" as const) }),
      Effect.result,
      Effect.map(Result.match({ onSuccess: (status) => status, onFailure: ({ error }) => error })),
      Effect.provide(
        WebhookTransport.layer(resolver, certificate.cert).pipe(
          Layer.provide(Settings.layer({ webhookTimeout: timeout }))
        )
      ),
      Effect.provideService(Proxies, proxies),
      Effect.runPromise
    )
    const asked = names.asked()
    await names.close()
    return { outcome, asked }
  }

  it.each(["http", "https"] as const)("through a proxy is a tunnel to the checked address, by %s", async (scheme) => {
    await using target = await serve(scheme)
    await using proxy = await ForwardProxy.listen()
    const { outcome } = await post(`${scheme}://target.test:${target.port}/hook`, { proxies: through(proxy.url()) })
    assert.strictEqual(outcome, 200)
    assert.deepStrictEqual(proxy.asked.map(({ line }) => line), [`CONNECT 127.0.0.2:${target.port}`])
    assert.deepInclude(target.seen[0], { line: "POST /hook", host: `target.test:${target.port}` })
    if (scheme === "https") assert.strictEqual(target.seen[0]?.servername, "target.test")
  })

  it("through a proxy is refused by the addresses of the name, before the proxy is asked", async () => {
    await using proxy = await ForwardProxy.listen()
    const sending = { proxies: through(proxy.url()), allowPrivate: "127.0.0.2/32" }
    const of = async (host: string, addresses: ReadonlyArray<string>, more = {}) =>
      (await post(`http://${host}:9/`, { ...sending, addresses, ...more })).outcome
    assert.strictEqual(await of("target.test", ["127.0.0.2", "10.0.0.1"]), "address_refused")
    assert.strictEqual(await of("target.test", []), "name_not_resolved")
    // What is no name is checked also when the proxy resolves names.
    for (const host of ["169.254.169.254", "[fd00::1]", "localhost", "a.localhost"]) {
      assert.strictEqual(await of(host, [], { proxyResolves: true }), "address_refused", host)
    }
    assert.deepStrictEqual(proxy.asked, [])
  })

  it("goes to the next address when the proxy cannot reach the first one", async () => {
    await using target = await serve("http")
    await using proxy = await ForwardProxy.listen()
    const { outcome } = await post(`http://target.test:${target.port}/`, {
      proxies: through(proxy.url()),
      addresses: ["127.0.0.2", "127.0.0.3"]
    })
    assert.strictEqual(outcome, 200)
    proxy.refusal = 503
    const refused = await post(`http://target.test:${target.port}/`, {
      proxies: through(proxy.url()),
      addresses: ["127.0.0.2", "127.0.0.3"]
    })
    assert.strictEqual(refused.outcome, "connection_failed")
    assert.deepStrictEqual(proxy.asked.slice(-2).map(({ line }) => line), [
      `CONNECT 127.0.0.2:${target.port}`,
      `CONNECT 127.0.0.3:${target.port}`
    ])
  })

  it("lets the proxy resolve names if the operator says so, and only where a proxy is used", async () => {
    await using target = await serve("https")
    await using proxy = await ForwardProxy.listen()
    const url = `https://target.test:${target.port}/`
    const sending = { proxyResolves: true, allowPrivate: "false" }
    const resolved = await post(url, { ...sending, proxies: through(proxy.url()) })
    assert.deepStrictEqual(resolved, { outcome: 200, asked: 0 })
    assert.deepStrictEqual(proxy.asked.map(({ line }) => line), [`CONNECT target.test:${target.port}`])
    const excepted = await post(url, { ...sending, proxies: through(proxy.url(), ".test") })
    assert.deepStrictEqual(excepted, { outcome: "address_refused", asked: 1 })
  })

  it.each([[["127.0.0.2", "127.0.0.3"]], [["127.0.0.3", "127.0.0.2"]]])(
    "reaches a distant address when the other one never answers: %s",
    async (addresses) => {
      await using target = await serve("https")
      await using distant = await Distant.at("127.0.0.2", target.port)
      await using _ = await Distant.at("127.0.0.3", target.port)
      const posted = post(`https://target.test:${target.port}/`, { addresses })
      setTimeout(() => distant.release(), 600)
      assert.strictEqual((await posted).outcome, 200)
    }
  )
})
