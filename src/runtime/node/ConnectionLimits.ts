/** Bounds on the connections of a port: their number, how long a peer may leave a response unread, and the unread bytes of all. */
import { Duration, Effect, Schedule } from "effect"
import { IncomingMessage, type Server, ServerResponse } from "node:http"
import type { Socket } from "node:net"
import type { Timeouts } from "../../services/timing/Intervals.ts"

export interface Bounds {
  /** An idle connection takes about 11 KiB of memory. */
  readonly connections: number
  /** Bytes of all responses that wait for their peers to read. */
  readonly unreadBytes: number
}

export const defaultBounds: Bounds = { connections: 10_000, unreadBytes: 128 * 1024 * 1024 }

/** Requests of one connection that wait for the responses before theirs; a peer that pipelines more is disconnected. */
const maxWaiting = 256
/** Bytes of all that wait: the newest is disconnected beyond. */
const maxWaitingBytes = 16 * 1024 * 1024

/** Bytes that Node reads of a body before anybody wants it. */
const unwantedBody = 64 * 1024
/** Bytes that a request which waits takes at most: its objects, its head and its body. */
const bytesOf = ({ headers, rawHeaders, url = "" }: IncomingMessage) => {
  const body = headers["transfer-encoding"] === undefined ? Number(headers["content-length"] ?? 0) : unwantedBody
  return 2048 + rawHeaders.reduce((sum, text) => sum + text.length, url.length) + Math.min(body, unwantedBody)
}

const checkInterval = Duration.millis(250)

interface Peer {
  /** Bytes that the peer had taken at the last check. */
  taken: number
  /** When the peer last took bytes or had none to take, by `performance.now()`. */
  since: number
  /** Whether a request has no response yet, or the next one is about to begin. */
  isServed: boolean
  /** Pipelined requests, in their order. */
  readonly waiting: Array<{ readonly bytes: number; readonly begin: () => void }>
}

export const limitConnections = (server: Server, timeouts: typeof Timeouts.Service, bounds: Bounds) => {
  const { responseIdle, jsonBytesPerSecond } = timeouts
  const peers = new Map<Socket, Peer>()
  const withoutRequest = new Set<Socket>()

  /** The connection whose peer has left a response unread for the longest time. */
  const slowestReader = () => {
    let slowest: readonly [Socket, Peer] | undefined
    for (const entry of peers) {
      if (entry[0].writableLength > 0 && entry[1].since < (slowest?.[1].since ?? Infinity)) slowest = entry
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

  /** Bytes of requests that wait. */
  let waitingBytes = 0
  const forgetWaiting = ({ waiting }: Peer) => {
    for (const { bytes } of waiting.splice(0)) waitingBytes -= bytes
  }

  /** Begins a request, and the next one of its connection after the response. */
  const begin = (peer: Peer, { socket }: IncomingMessage, response: ServerResponse, emit: () => void) => {
    withoutRequest.delete(socket)
    peer.isServed = true
    response.once("close", () => {
      // After a response that closes the connection, or while the server closes, none begins.
      const next = socket.writable && server.listening ? peer.waiting.shift() : undefined
      if (next !== undefined) {
        waitingBytes -= next.bytes
        return void setImmediate(() => socket.destroyed || next.begin())
      }
      if (peer.waiting.length > 0) return void socket.end()
      peer.isServed = false
      if (!socket.destroyed) withoutRequest.add(socket)
    })
    emit()
  }

  // Node begins all requests that it has read, so that one connection would have the event loop for seconds.
  const emit = server.emit.bind(server)
  server.emit = (name: string | symbol, ...given: Array<unknown>): boolean => {
    const [request, response] = given
    if (!(request instanceof IncomingMessage) || !(response instanceof ServerResponse)) return emit(name, ...given)
    const peer = peers.get(request.socket)
    if (peer === undefined) return emit(name, ...given)
    // It arrives behind a response that closes the connection.
    if (!request.socket.writable) return true
    const now = () => begin(peer, request, response, () => emit(name, ...given))
    if (!peer.isServed) now()
    else {
      const bytes = bytesOf(request)
      waitingBytes += bytes
      if (peer.waiting.push({ bytes, begin: now }) > maxWaiting || waitingBytes > maxWaitingBytes) {
        forgetWaiting(peer)
        request.socket.destroy()
      }
    }
    return true
  }
  server.on("upgrade", ({ socket }) => {
    withoutRequest.delete(socket)
    // The response of a request before it would come between its frames.
    if (peers.get(socket)?.isServed === true) socket.destroy()
  })
  server.on("connection", (socket) => {
    const peer: Peer = { taken: 0, since: performance.now(), isServed: false, waiting: [] }
    peers.set(socket, peer)
    withoutRequest.add(socket)
    socket.once("close", () => {
      peers.delete(socket)
      forgetWaiting(peer)
      withoutRequest.delete(socket)
    })
    if (peers.size > bounds.connections) replaceOne(socket)
  })

  /** Returns the peer's unread bytes. Progress within a write is not visible, so its size extends the timeout. */
  const check = (socket: Socket, peer: Peer) => {
    const waiting = socket.writableLength
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
