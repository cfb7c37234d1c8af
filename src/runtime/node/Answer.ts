/**
 * How a connection ends after an answer that comes before the end of its request. What still arrives is read and dropped for a
 * moment, because a reset would take the answer from a client that writes all before it reads. Then the connection is destroyed.
 */
import { Duration, Effect } from "effect"
import { type IncomingMessage, ServerResponse } from "node:http"
import type { Socket } from "node:net"

/** A peer that sends nothing for so long has read its answer, or never will. */
const silence = Duration.seconds(1)

/** A peer that goes on sending has this long to read its answer. */
const patience = Duration.seconds(5)

/** Destroys a connection once its peer is silent, and at the latest after `patience`. */
const linger = (socket: Socket) => {
  let received = -1
  const isSilent = Effect.sync(() => {
    const before = received
    received = socket.bytesRead
    return received === before
  })
  const closing = isSilent.pipe(
    Effect.delay(silence),
    Effect.repeat({ until: (silent) => silent }),
    Effect.timeoutOption(patience),
    Effect.andThen(Effect.sync(() => socket.destroy())),
    Effect.runFork
  )
  socket.once("close", () => closing.interruptUnsafe())
  return closing
}

/** Ends every connection the same way: half-close, drop what still arrives, destroy. */
export const closeAfterAnswer = (socket: Socket) => {
  // Node's own resets the connection while the peer still sends.
  socket.destroySoon = () => socket.end()
  socket.once("finish", () => {
    socket.resume()
    linger(socket)
  })
}

const readToEnd = (request: IncomingMessage) => {
  if (request.complete || request.destroyed) return
  const closing = linger(request.socket)
  // The request may end after all, and the connection take the next one.
  request.once("end", () => closing.interruptUnsafe())
  setImmediate(() => request.resume())
}

export class Answer<Request extends IncomingMessage = IncomingMessage> extends ServerResponse<Request> {
  constructor(...of: ConstructorParameters<typeof ServerResponse<Request>>) {
    super(...of)
    this.once("finish", () => readToEnd(this.req))
    const { writeHead } = this
    // A handler that answers in the middle of a body gives up on the rest, so this answer is the last of its connection.
    this.writeHead = (...head: ReadonlyArray<never>) => {
      if (this.req.readableDidRead && !this.req.complete) this.shouldKeepAlive = false
      return Reflect.apply(writeHead, this, head)
    }
  }

  /** Skips Effect's own teardown, which resets the connection after half a second although the peer still sends. */
  override prependListener(event: string, listener: Parameters<ServerResponse["once"]>[1]) {
    return event === "finish" ? this : super.prependListener(event, listener)
  }
}
