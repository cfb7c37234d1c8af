/**
 * The server's own way to close, in place of that of Node and Effect: `destroySoon` of sockets, `close` of a server, and the teardown of
 * a request after its response. Each of these resets connections whose peer still sends, and a reset destroys what the peer has not
 * read yet.
 */
import { Duration, Effect } from "effect"
import { type IncomingMessage, type Server, ServerResponse } from "node:http"
import { Server as NetServer, type Socket } from "node:net"

/** A peer that sends nothing for this long has read the response, or never will. */
const silenceTimeout = Duration.seconds(1)

/** A peer that keeps sending has this long to read the response. */
const lingerTimeout = Duration.seconds(5)

/** Destroys a connection when its peer is silent, at the latest after `lingerTimeout`. Returns a function that keeps it. */
const linger = (socket: Socket) => {
  let received = -1
  const isSilent = Effect.sync(() => {
    const before = received
    received = socket.bytesRead
    return received === before
  })
  const closing = isSilent.pipe(
    Effect.delay(silenceTimeout),
    Effect.repeat({ until: (silent) => silent }),
    Effect.timeoutOption(lingerTimeout),
    Effect.andThen(Effect.sync(() => socket.destroy())),
    Effect.runFork
  )
  const stop = () => {
    socket.off("close", stop)
    closing.interruptUnsafe()
  }
  socket.once("close", stop)
  return stop
}

/** Ends every connection the same way: half-close, drop incoming bytes, destroy. */
export const closeAfterResponse = (socket: Socket) => {
  // Node's implementation resets the connection while the peer still sends.
  socket.destroySoon = () => socket.end()
  socket.once("finish", () => {
    socket.resume()
    linger(socket)
  })
}

const readToEnd = (request: IncomingMessage) => {
  if (request.complete || request.destroyed) return
  // If the request ends in time, the connection stays open for the next one.
  request.once("end", linger(request.socket))
  setImmediate(() => request.resume())
}

export class LingeringResponse<Request extends IncomingMessage = IncomingMessage> extends ServerResponse<Request> {
  constructor(...of: ConstructorParameters<typeof ServerResponse<Request>>) {
    super(...of)
    this.once("finish", () => readToEnd(this.req))
  }

  /** A handler that responds in the middle of a body abandons the rest, so the connection cannot be reused. */
  override writeHead(...head: [status: number, ...rest: ReadonlyArray<unknown>]) {
    if (this.req.readableDidRead && !this.req.complete) this.shouldKeepAlive = false
    return Reflect.apply(super.writeHead, this, head)
  }

  /** Skips `teardownBody` of Effect's `NodeHttpServer`, which resets the connection after half a second although the peer still sends. */
  override prependListener(event: string, listener: Parameters<ServerResponse["once"]>[1]) {
    return event === "finish" ? this : super.prependListener(event, listener)
  }
}

/** Time for the first request to arrive on a connection that was accepted just before a shutdown. */
const firstRequestTimeout = Duration.millis(200)

/** A server to which others keep connecting stops listening after this time. */
const acceptTimeout = Duration.seconds(2)

const nextTurn = (then: () => void) => setImmediate(() => setImmediate(then))

/**
 * Makes a shutdown reset no request (https://github.com/nodejs/node/issues/60617). Node's own `close` resets connections that wait
 * in the accept queue, and new ones whose first request has not arrived yet, and a proxy must not retry a POST after a reset.
 * Responses during the shutdown close their connection, so that busy clients reconnect to another node.
 */
export const closeGently = (server: Server) => {
  let isStopping = false
  let isTimeOver = false
  let accepted = 0
  const closeIdle = () => setImmediate(() => server.closeIdleConnections())
  /** Each turn of the event loop accepts one connection, so after a turn without any the accept queue is empty. */
  const whenAccepted = (deadline: number, then: () => void): void => {
    const before = accepted
    nextTurn(() => accepted === before || performance.now() > deadline ? then() : whenAccepted(deadline, then))
  }
  server.on("connection", () => accepted++)
  server.on("request", (_, response) => {
    if (isStopping) response.shouldKeepAlive = false
    response.once("close", () => {
      if (isTimeOver) closeIdle()
    })
  })
  server.close = (done) => {
    isStopping = true
    whenAccepted(performance.now() + Duration.toMillis(acceptTimeout), () => {
      NetServer.prototype.close.call(server, done)
      Effect.runFork(Effect.delay(
        Effect.sync(() => {
          isTimeOver = true
          closeIdle()
        }),
        firstRequestTimeout
      ))
    })
    return server
  }
}
