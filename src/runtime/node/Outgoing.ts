/**
 * The clients of other systems: the core, the backend, providers, key sets, collectors. All connect here, so that no default of a library
 * decides. HTTP/1.1 only: a call that ends closes its connection, while one of HTTP/2 would keep a dead connection for all others.
 */
import * as NodeHttpClient from "@effect/platform-node/NodeHttpClient"
import { Agent, buildConnector, type Dispatcher, errors, Pool, ProxyAgent } from "@effect/platform-node/Undici"
import { Cause, Duration, Effect, Exit, Layer, Redacted } from "effect"
import type { Socket } from "node:net"
import { addressesOf, type Attempt, dial, type NotConnected, tcp, toNotConnected } from "./Dialer.ts"
import { find, none, Proxies, type Proxy, targetOf } from "./Proxies.ts"

/** For a new connection: names, TCP, proxy and TLS together. A call that is given up sooner leaves it to the next one. */
const connectTimeout = Duration.seconds(10)

/**
 * Milliseconds for which an idle connection is kept, whatever the server proposes. Shorter than the clock of any call, so that a call
 * after one that was lost finds no other dead connection.
 */
const keepAliveTimeout = 4000

interface Connecting {
  readonly proxies: Proxies
  readonly timeout?: Duration.Duration
  /** The addresses that may be connected to, also through a proxy, which otherwise resolves the name. */
  readonly addresses?: ReadonlyArray<string>
  readonly tls?: { readonly minVersion: "TLSv1.2"; readonly ca?: string }
}

type Options = buildConnector.Options
type Connector = buildConnector.connector

/** The pools that open tunnels. A tunnel takes its connection with it, so none is idle. */
const tunnelPools = new WeakMap<Proxy, Pool>()

const tunnelPoolOf = (proxy: Proxy) => {
  const pool = tunnelPools.get(proxy) ?? new Pool(proxy.url, toProxy)
  tunnelPools.set(proxy, pool)
  return pool
}

const headersOf = ({ authorization }: Proxy) =>
  authorization === undefined ? {} : { "proxy-authorization": Redacted.value(authorization) }

/** Connects by a tunnel through the proxy (CONNECT). */
const tunnel = (proxy: Proxy, port: number): Attempt => (address, opened) => {
  const path = `${address.includes(":") ? `[${address}]` : address}:${port}`
  const request = { path, headers: { host: path, ...headersOf(proxy) } }
  return Effect.tryPromise({
    try: (signal) =>
      tunnelPoolOf(proxy).connect({ ...request, signal }).then(({ socket, statusCode }) => {
        // undici types it as any stream.
        const connected = socket as Socket
        opened.add(connected.on("error", () => {}))
        if (statusCode >= 200 && statusCode < 300) return connected
        throw new Error(`the proxy ${proxy.url} answers ${statusCode} to CONNECT ${path}`)
      }),
    catch: toNotConnected
  })
}

const encrypt = (secure: Connector, options: Options, httpSocket: Socket) =>
  Effect.callback<Socket, NotConnected>((resume) => {
    secure(
      { ...options, httpSocket },
      (error, socket) => resume(error === null ? Effect.succeed(socket) : Effect.fail(toNotConnected(error)))
    )
  }).pipe(Effect.onError(() => Effect.sync(() => httpSocket.destroy())))

/** Options of the connections of undici's clients. */
export const makeConnector = (
  { addresses, proxies, timeout = connectTimeout, tls }: Connecting
): Connector => {
  const secure = buildConnector({ ...tls, allowH2: false, timeout: 0 })
  const open = (options: Options): Effect.Effect<Socket, NotConnected> => {
    const target = targetOf(options)
    const proxy = find(proxies, target)
    if (proxy !== undefined) return dial(addresses ?? [target.hostname], tunnel(proxy, target.port))
    const found = addresses === undefined ? addressesOf(target.hostname) : Effect.succeed(addresses)
    return Effect.flatMap(found, (all) => dial(all, tcp(target.port)))
  }
  return (options, callback) => {
    const tooLate = new errors.ConnectTimeoutError(
      `no connection to ${options.host ?? options.hostname} within ${Duration.format(timeout)}`
    )
    const connected = open(options).pipe(
      Effect.flatMap((socket) =>
        options.protocol === "https:" ? encrypt(secure, options, socket) : Effect.succeed(socket)
      ),
      Effect.timeoutOrElse({ duration: timeout, orElse: () => Effect.fail(toNotConnected(tooLate)) })
    )
    Effect.runCallback(connected, {
      onExit: Exit.match({
        onSuccess: (socket) => callback(null, socket),
        onFailure: (cause) => callback(toNotConnected(Cause.squash(cause)), null)
      })
    })
  }
}

/** Callers have clocks of their own for the response. */
const common = {
  allowH2: false,
  headersTimeout: 0,
  bodyTimeout: 0,
  keepAliveTimeout,
  keepAliveMaxTimeout: keepAliveTimeout
}

const connectDirectly = makeConnector({ proxies: none })

const toProxy = {
  ...common,
  // The name in the certificate is the proxy's, while the requests name their targets.
  connect: (options: Options, callback: buildConnector.Callback) =>
    connectDirectly({ ...options, servername: "" }, callback)
}

export interface PoolOptions {
  /** Maximum for one origin. */
  readonly connections?: number
}

/** A proxy gets requests of `http:` URLs themselves, because many open tunnels only to port 443. */
const forwarding = (proxies: Proxies, proxy: Proxy, options: PoolOptions) => {
  const token = Redacted.value(proxy.authorization ?? Redacted.make(""))
  const agent = new ProxyAgent({
    uri: proxy.url,
    ...(token === "" ? {} : { token }),
    factory: () => new Pool(proxy.url, { ...toProxy, ...options })
  })
  const compose: Dispatcher.DispatcherComposeInterceptor = (dispatch) => (request, handler) => {
    const url = new URL(String(request.origin))
    return url.protocol === "http:" && find(proxies, targetOf(url)) !== undefined
      ? agent.dispatch({ ...request, origin: url.origin }, handler)
      : dispatch(request, handler)
  }
  return { agent, compose }
}

/** The dispatcher of one client. Each has its own, so that none waits for the connections of another. */
export const makeDispatcher = Effect.fnUntraced(function*(options: PoolOptions = {}) {
  const proxies = yield* Proxies
  const agent = new Agent({ ...common, ...options, connect: makeConnector({ proxies }) })
  const forward = proxies.http === undefined ? undefined : forwarding(proxies, proxies.http, options)
  yield* Effect.addFinalizer(() =>
    Effect.promise(() => Promise.all([agent.destroy(), ...(forward === undefined ? [] : [forward.agent.destroy()])]))
  )
  return forward === undefined ? agent : agent.compose(forward.compose)
})

/** The HTTP client of Effect. */
export const layer = NodeHttpClient.layerUndiciNoDispatcher.pipe(
  Layer.provide(Layer.effect(NodeHttpClient.Dispatcher, makeDispatcher()))
)
