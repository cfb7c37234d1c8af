/**
 * Closes a connection after a response that was sent before the end of its request. A reset would destroy the response before
 * a client that writes everything first has read it, so we drop incoming bytes for a moment and then destroy the connection.
 */
import { Duration, Effect } from "effect"
import { type IncomingMessage, ServerResponse } from "node:http"
import type { Socket } from "node:net"

/** A peer that sends nothing for this long has read the response, or never will. */
const silenceTimeout = Duration.seconds(1)

/** A peer that keeps sending has this long to read the response. */
const lingerTimeout = Duration.seconds(5)

/** Destroys a connection when its peer is silent, at the latest after `lingerTimeout`. */
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
  socket.once("close", () => closing.interruptUnsafe())
  return closing
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
  const closing = linger(request.socket)
  // If the request ends in time, the connection stays open for the next one.
  request.once("end", () => closing.interruptUnsafe())
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

  /** Skips Effect's teardown, which resets the connection after half a second although the peer still sends. */
  override prependListener(event: string, listener: Parameters<ServerResponse["once"]>[1]) {
    return event === "finish" ? this : super.prependListener(event, listener)
  }
}
