/**
 * Node's HTTP server with every bound of the socket's edge, and with answers in JSON for what never becomes a request.
 */
import { NodeHttpServer } from "@effect/platform-node"
import { Duration, Effect, Layer } from "effect"
import { HttpRouter, HttpServer } from "effect/http"
import { randomUUID } from "node:crypto"
import { createServer, type Server, type ServerResponse, STATUS_CODES } from "node:http"
import { Server as NetServer } from "node:net"
import type { Duplex } from "node:stream"
import * as Limits from "../../domain/Limits.ts"
import { Timeouts } from "../../services/timing/Timeouts.ts"
import { Answer, closeAfterAnswer } from "./Answer.ts"
import { BoundedWebSocket } from "./BoundedWebSocket.ts"
import { limitConnections, maxConnections } from "./ConnectionLimits.ts"

/** Bytes of a request's head; a longer one is 431. */
const maxHeadBytes = 16 * 1024

/** How often a head that is too slow is looked for. */
const checkInterval = Duration.seconds(5)

/** For the first request on a connection that was taken just before a stop. */
const arrival = Duration.millis(200)

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

const messageOf = (status: number) => JSON.stringify({ message: messages[status] ?? "The request is not valid HTTP." })

const headersOf = (body: string): Readonly<Record<string, string>> => ({
  "Content-Type": "application/json",
  "Content-Length": String(Buffer.byteLength(body)),
  "X-Request-Id": randomUUID(),
  Connection: "close"
})

/** Answers once and closes. */
const refuse = (socket: Duplex, status: number) => {
  if (socket.destroyed || !socket.writable) return
  const body = messageOf(status)
  const headers = Object.entries(headersOf(body)).map(([name, value]) => `${name}: ${value}\r\n`).join("")
  socket.end(`HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\n${headers}\r\n${body}`)
}

interface Answering {
  readonly _httpMessage?: Pick<ServerResponse, "headersSent"> | null
}

const nextTurn = (then: () => void) => setImmediate(() => setImmediate(then))

/**
 * A stop resets no request. Node's own would, for connections that wait to be taken, and for one that it takes for idle as its
 * first request is still on the way; no proxy may send a POST again after that. Clients that never pause are asked to come back
 * elsewhere.
 */
const closeGently = (server: Server) => {
  let isStopping = false
  let isPastArrival = false
  let taken = 0
  const closeIdle = () => setImmediate(() => server.closeIdleConnections())
  /** A turn of the event loop takes one connection, so none waits after a turn without any. */
  const stopListening = (done?: (error?: Error) => void): void => {
    const before = taken
    nextTurn(() => {
      if (taken === before || isPastArrival) NetServer.prototype.close.call(server, done)
      else stopListening(done)
    })
  }
  server.on("connection", () => taken++)
  server.on("request", (_, response) => {
    if (isStopping) response.shouldKeepAlive = false
    response.once("close", () => {
      if (isPastArrival) closeIdle()
    })
  })
  server.close = (done) => {
    isStopping = true
    stopListening(done)
    Effect.runFork(Effect.delay(
      Effect.sync(() => {
        isPastArrival = true
        closeIdle()
      }),
      arrival
    ))
    return server
  }
}

export const make = (timeouts: typeof Timeouts.Service, maximum = maxConnections): Server => {
  const server = createServer({
    ServerResponse: Answer,
    // Node's own limit on a whole request would cut long uploads.
    requestTimeout: 0,
    headersTimeout: Duration.toMillis(timeouts.requestHead),
    connectionsCheckingInterval: Math.min(
      Duration.toMillis(checkInterval),
      Duration.toMillis(timeouts.requestHead)
    ),
    keepAliveTimeout: Duration.toMillis(timeouts.idleConnection),
    maxHeaderSize: maxHeadBytes,
    // Of two tokens, or two hosts, none is taken: whoever looked at the other one would have let another user pass.
    joinDuplicateHeaders: true,
    // Any other upgrade is let be, and the connection goes on with the next request.
    shouldUpgradeCallback: ({ headers }) => headers.upgrade?.toLowerCase() === "websocket"
  })
  server.on("clientError", (error: NodeJS.ErrnoException, socket) => {
    // An answer that has begun cannot be taken back.
    const isAnswering = (socket as Answering)._httpMessage?.headersSent === true
    if (error.code === "ECONNRESET" || isAnswering) return socket.destroy()
    refuse(socket, statusOf[error.code ?? ""] ?? 400)
  })
  server.on("checkExpectation", (_, response) => {
    const body = messageOf(417)
    response.writeHead(417, headersOf(body)).end(body)
  })
  server.on("connect", (_, socket) => refuse(socket, 405))
  closeGently(server)
  limitConnections(server, timeouts, maximum)
  return server.on("connection", closeAfterAnswer)
}

/** Routes on a port. Listening comes last: a request that met no routes yet would wait for ever. */
export const serve = <A, E, R>(
  routes: Layer.Layer<A, E, R>,
  { host, port }: { readonly host: string; readonly port: number }
) =>
  Layer.unwrap(Effect.gen(function*() {
    const timeouts = yield* Timeouts
    const app = yield* HttpRouter.toHttpEffect(routes)
    const options = {
      host,
      port,
      gracefulShutdownTimeout: Duration.seconds(15),
      websocket: { WebSocket: BoundedWebSocket, maxPayload: Limits.rpcMessageBytes }
    }
    return Layer.provideMerge(HttpServer.serve(app), NodeHttpServer.layerServer(() => make(timeouts), options))
  }))
