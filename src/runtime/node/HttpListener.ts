/**
 * Node's HTTP server with limits on connections, headers and timeouts. Connections that never become a valid request get an
 * error response in JSON.
 */
import * as NodeHttpServer from "@effect/platform-node/NodeHttpServer"
import { Context, Duration, Effect, Layer, Record, Scope } from "effect"
import { HttpServer } from "effect/http"
import { randomUUID } from "node:crypto"
import { createServer, type Server, type ServerResponse, STATUS_CODES } from "node:http"
import type { ListenOptions } from "node:net"
import type { Duplex } from "node:stream"
import * as Limits from "../../domain/Limits.ts"
import { Audience } from "../../http/Audience.ts"
import { codeOfStatus } from "../../http/contract/ErrorCodes.ts"
import { Timeouts } from "../../services/timing/Intervals.ts"
import type { WorkerAssignment } from "../config/WorkerAssignment.ts"
import { BoundedWebSocket } from "./BoundedWebSocket.ts"
import { closeAfterResponse, closeGently, LingeringResponse } from "./Closing.ts"
import { type Bounds, defaultBounds, limitConnections } from "./ConnectionLimits.ts"
import type { App } from "./InProcess.ts"
import * as RequestContext from "./RequestContext.ts"

/** Bytes of a request's headers; more are answered with 431. */
const maxHeadBytes = 16 * 1024

/** Interval between checks for requests whose headers take too long. */
const checkInterval = Duration.seconds(5)

const statusOf: Readonly<Record<string, number>> = {
  HPE_HEADER_OVERFLOW: 431,
  HPE_CHUNK_EXTENSIONS_OVERFLOW: 413,
  ERR_HTTP_REQUEST_TIMEOUT: 408
}

const messages: Readonly<Record<number, string>> = {
  405: "CONNECT is not allowed here.",
  408: "The request did not arrive in time.",
  417: "Nothing but 100-continue can be expected.",
  413: "The chunk extensions are too long.",
  431: `The headers are larger than ${maxHeadBytes} bytes.`
}

const messageOf = (status: number) =>
  JSON.stringify({ message: messages[status] ?? "The request is not valid HTTP.", code: codeOfStatus(status) })

const headersOf = (body: string): Readonly<Record<string, string>> => ({
  "Content-Type": "application/json",
  "Content-Length": String(Buffer.byteLength(body)),
  "X-Request-Id": randomUUID(),
  Connection: "close"
})

/** Writes an error response and closes the connection. */
const refuse = (socket: Duplex, status: number) => {
  if (socket.destroyed || !socket.writable) return
  const body = messageOf(status)
  const allow = status === 405 ? { Allow: "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS" } : {}
  const headers = Object.entries({ ...headersOf(body), ...allow }).map(([name, value]) => `${name}: ${value}\r\n`).join(
    ""
  )
  socket.end(`HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\n${headers}\r\n${body}`)
}

/** The response that a socket waits for, by which Node links them. */
const responseOf = (socket: Duplex): ServerResponse | undefined => Reflect.get(socket, "_httpMessage") ?? undefined

export const make = (timeouts: typeof Timeouts.Service, bounds: Bounds = defaultBounds): Server => {
  const server = createServer({
    ServerResponse: LingeringResponse,
    // Node's limit on the duration of a request would cut off long uploads.
    requestTimeout: 0,
    headersTimeout: Duration.toMillis(timeouts.requestHead),
    connectionsCheckingInterval: Math.min(
      Duration.toMillis(checkInterval),
      Duration.toMillis(timeouts.requestHead)
    ),
    keepAliveTimeout: Duration.toMillis(timeouts.idleConnection),
    maxHeaderSize: maxHeadBytes,
    // Joins duplicate headers, so that two tokens or hosts are invalid: a proxy might have checked the other one.
    joinDuplicateHeaders: true,
    // Node's refusal has no body. `ResponseMiddleware` of the service requires one host; the built-in systems need none.
    requireHostHeader: false,
    // Ignores other upgrades and handles the request as a normal one.
    shouldUpgradeCallback: ({ headers }) => headers.upgrade?.toLowerCase() === "websocket"
  })
  server.on("clientError", (error: NodeJS.ErrnoException, socket) => {
    // A response that has begun, or of a request that has arrived, cannot be replaced by an error.
    const response = responseOf(socket)
    if (error.code === "ECONNRESET" || response?.headersSent || response?.req.complete) return socket.destroy()
    refuse(socket, statusOf[error.code ?? ""] ?? 400)
  })
  server.on("checkExpectation", (_, response) => {
    const body = messageOf(417)
    response.writeHead(417, headersOf(body)).end(body)
  })
  server.on("connect", (_, socket) => responseOf(socket) === undefined ? refuse(socket, 405) : socket.destroy())
  closeGently(server)
  limitConnections(server, timeouts, bounds)
  return server.on("connection", closeAfterResponse)
}

/**
 * Serves an application on a port, or on one for each audience. It is built before listening starts: an earlier request would
 * never get a response.
 */
export const serve = <F, E, R>(
  routes: Effect.Effect<App<F>, E, R>,
  { host, internalPort, port, worker }: {
    readonly host: string
    readonly port: number
    readonly internalPort?: number | undefined
    /** This process among several that share the ports. */
    readonly worker?: WorkerAssignment | undefined
  }
) =>
  Layer.unwrap(Effect.gen(function*() {
    const timeouts = yield* Timeouts
    const app = yield* routes
    const bounds = Record.map(defaultBounds, (bound) => Math.floor(bound / (worker?.count ?? 1)))
    // Linux gives each connection to one of the workers. Elsewhere the process that started them does.
    const shared = { reusePort: worker !== undefined && process.platform === "linux" }
    const listen = (port: number, audience: typeof Audience.Service, at: ListenOptions = { host, ...shared }) =>
      Layer.effectDiscard(Effect.gen(function*() {
        const server = yield* HttpServer.HttpServer
        const context = Context.add(yield* RequestContext.get, Scope.Scope, yield* Effect.scope)
        yield* server.serve(Effect.provideService(app, Audience, audience)).pipe(
          Effect.updateContext<never, Scope.Scope>(() => context)
        )
      })).pipe(
        Layer.provide(NodeHttpServer.layerServer(() => make(timeouts, bounds), {
          ...at,
          port,
          gracefulShutdownTimeout: Duration.seconds(15),
          websocket: { WebSocket: BoundedWebSocket, maxPayload: Limits.rpcMessageBytes }
        }))
      )
    const listening = internalPort === undefined
      ? listen(port, "all")
      : Layer.merge(listen(port, "public"), listen(internalPort, "internal"))
    return worker === undefined
      ? listening
      : Layer.merge(listening, listen(worker.ownPort, "worker", { host: worker.cluster.host, exclusive: true }))
  }))
