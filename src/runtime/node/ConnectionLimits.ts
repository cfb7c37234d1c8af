/** Bounds on the connections of a port: their number, how long a peer may leave a response unread, and the unread bytes of all. */
import { Duration, Effect, Schedule } from "effect"
import type { IncomingMessage, Server, ServerResponse } from "node:http"
import type { Socket } from "node:net"
import type { Timeouts } from "../../services/timing/Intervals.ts"

export interface Bounds {
  /** An idle connection takes about 11 KiB of memory. */
  readonly connections: number
  /** Bytes of all responses that wait for their peers to read. */
  readonly unreadBytes: number
}

export const defaultBounds: Bounds = { connections: 10_000, unreadBytes: 128 * 1024 * 1024 }

/** Requests of one connection without a response; a peer that pipelines more is disconnected. */
const maxUnanswered = 256

const checkInterval = Duration.millis(250)

interface Peer {
  /** Bytes that the peer had taken at the last check. */
  taken: number
  /** When the peer last took bytes or had none to take, by `performance.now()`. */
  since: number
  readonly unanswered: Set<ServerResponse>
}

/** The responses of pipelined requests wait for the first one, outside of the socket. */
const unreadOf = (socket: Socket, { unanswered }: Peer) => {
  let bytes = socket.writableLength
  for (const response of unanswered) if (response.socket === null) bytes += response.writableLength
  return bytes
}

export const limitConnections = (server: Server, timeouts: typeof Timeouts.Service, bounds: Bounds) => {
  const { responseIdle, jsonBytesPerSecond } = timeouts
  const peers = new Map<Socket, Peer>()
  const withoutRequest = new Set<Socket>()

  /** The connection whose peer has left a response unread for the longest time. */
  const slowestReader = () => {
    let slowest: readonly [Socket, Peer] | undefined
    for (const entry of peers) {
      if (unreadOf(...entry) > 0 && entry[1].since < (slowest?.[1].since ?? Infinity)) slowest = entry
    }
    return slowest?.[0]
  }

  /** Makes room for a new connection, so that neither idle peers nor slow readers can lock clients out. */
  const replaceOne = (newest: Socket) => {
    const [idle] = withoutRequest
    const replaced = idle === newest ? slowestReader() ?? newest : idle ?? newest
    withoutRequest.delete(replaced)
    replaced.destroy()
  }

  const track = ({ socket }: IncomingMessage, response: ServerResponse) => {
    const peer = peers.get(socket)
    withoutRequest.delete(socket)
    peer?.unanswered.add(response)
    if (peer !== undefined && peer.unanswered.size > maxUnanswered) socket.destroy()
    response.once("close", () => {
      peer?.unanswered.delete(response)
      if (!socket.destroyed && peer?.unanswered.size === 0) withoutRequest.add(socket)
    })
  }
  server.on("request", track).on("checkContinue", track)
  server.on("upgrade", ({ socket }) => withoutRequest.delete(socket))
  server.on("connection", (socket) => {
    peers.set(socket, { taken: 0, since: performance.now(), unanswered: new Set() })
    withoutRequest.add(socket)
    socket.once("close", () => {
      peers.delete(socket)
      withoutRequest.delete(socket)
    })
    if (peers.size > bounds.connections) replaceOne(socket)
  })

  /** Returns the peer's unread bytes. Progress within a write is not visible, so its size extends the timeout. */
  const check = (socket: Socket, peer: Peer) => {
    const waiting = unreadOf(socket, peer)
    const taken = socket.bytesWritten - socket.writableLength
    if (waiting === 0 || taken !== peer.taken) Object.assign(peer, { taken, since: performance.now() })
    const timeout = Duration.toMillis(responseIdle) + 1000 * waiting / jsonBytesPerSecond
    if (performance.now() - peer.since > timeout) socket.destroy()
    return waiting
  }

  const checkAll = Effect.sync(() => {
    const unread = [...peers].map(([socket, peer]) => ({ socket, since: peer.since, bytes: check(socket, peer) }))
    let excess = unread.reduce((sum, { bytes }) => sum + bytes, -bounds.unreadBytes)
    if (excess <= 0) return
    for (const { bytes, socket } of unread.filter(({ bytes }) => bytes > 0).toSorted((a, b) => a.since - b.since)) {
      if (excess <= 0) return
      excess -= bytes
      socket.destroy()
    }
  })
  server.once("listening", () => {
    const checking = Effect.runFork(Effect.schedule(checkAll, Schedule.spaced(checkInterval)))
    server.once("close", () => checking.interruptUnsafe())
  })
}
