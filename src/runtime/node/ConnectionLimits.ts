/** Bounds on the connections of a port: their number, and how long a peer may leave a response unread. */
import { Duration, Effect, Schedule } from "effect"
import type { IncomingMessage, Server, ServerResponse } from "node:http"
import type { Socket } from "node:net"
import type { Timeouts } from "../../services/timing/Timeouts.ts"

/** An idle connection takes about 11 KiB of memory. */
export const maxConnections = 10_000

const checkInterval = Duration.seconds(5)

/** Closes the oldest idle connection when a new one exceeds the maximum, so that idle ones cannot lock clients out. */
const limitNumber = (server: Server, maximum: number) => {
  let open = 0
  const withoutRequest = new Set<Socket>()
  const track = ({ socket }: IncomingMessage, response: ServerResponse) => {
    withoutRequest.delete(socket)
    response.once("close", () => {
      if (!socket.destroyed) withoutRequest.add(socket)
    })
  }
  server.on("request", track).on("checkContinue", track)
  server.on("upgrade", ({ socket }) => withoutRequest.delete(socket))
  server.on("connection", (socket) => {
    withoutRequest.add(socket)
    socket.once("close", () => {
      open--
      withoutRequest.delete(socket)
    })
    if (++open <= maximum) return
    const [oldest = socket] = withoutRequest
    withoutRequest.delete(oldest)
    oldest.destroy()
  })
}

/** Destroys connections whose peer does not read. Progress within a write is not visible, so its size extends the timeout. */
const limitBacklog = (server: Server, { responseIdle, jsonBytesPerSecond }: typeof Timeouts.Service) => {
  const sockets = new Map<Socket, { readonly taken: number; readonly since: number }>()
  server.on("connection", (socket) => {
    sockets.set(socket, { taken: 0, since: performance.now() })
    socket.once("close", () => sockets.delete(socket))
  })
  const check = (socket: Socket) => {
    const waiting = socket.writableLength
    const taken = socket.bytesWritten - waiting
    const last = sockets.get(socket)
    if (waiting === 0 || last?.taken !== taken) return sockets.set(socket, { taken, since: performance.now() })
    const timeout = Duration.toMillis(responseIdle) + 1000 * waiting / jsonBytesPerSecond
    if (performance.now() - last.since > timeout) socket.destroy()
  }
  const checks = Effect.sync(() => {
    for (const socket of sockets.keys()) check(socket)
  })
  server.once("listening", () => {
    const checking = Effect.runFork(
      Effect.schedule(checks, Schedule.spaced(Duration.min(checkInterval, responseIdle)))
    )
    server.once("close", () => checking.interruptUnsafe())
  })
}

export const limitConnections = (server: Server, timeouts: typeof Timeouts.Service, maximum: number) => {
  limitNumber(server, maximum)
  limitBacklog(server, timeouts)
}
