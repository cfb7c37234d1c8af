/** Calls over a WebSocket at `/rpc`: each message has whole lines, so nothing is kept of one that is not finished. */
import { Effect, Result } from "effect"
import { HttpServerError, HttpServerRequest, HttpServerResponse } from "effect/http"
import type { Socket } from "effect/socket"
import * as Limits from "../../domain/Limits.ts"
import type { Connection, Connections } from "./RpcConnections.ts"
import { busy, RpcMemory } from "./RpcMemory.ts"
import * as RpcMessages from "./RpcMessages.ts"

export const upgradeRequired = HttpServerResponse.jsonUnsafe(
  { message: "Calls come by POST, or over a WebSocket." },
  { status: 426, headers: { upgrade: "websocket" } }
)

const tooManySockets = HttpServerResponse.jsonUnsafe(
  { message: `This node serves ${Limits.rpcSockets} WebSockets, and no more at a time.` },
  { status: 503 }
)

/** The handshake is the client's: where it fails, the fault is not ours. */
const isWrongHandshake = (error: Socket.SocketError | HttpServerError.HttpServerError) =>
  HttpServerError.isHttpServerError(error) || error.reason._tag === "SocketOpenError"

const receive =
  (connection: Connection, memory: RpcMemory["Service"]) =>
  ({ message, size }: RpcMessages.Received): Effect.Effect<void> => {
    if (message._tag !== "Request") return connection.control(message)
    if (connection.isInFlight(message.id)) return connection.complain("Each call needs an id of its own")
    const problem = RpcMessages.problemOf(message)
    if (problem !== undefined) return connection.fail(message.id, problem)
    // Reading goes on meanwhile: streams in flight need their acknowledgements.
    if (connection.inFlight() >= Limits.rpcCalls || !memory.take(size)) return connection.fail(message.id, busy)
    return connection.begin(message, Effect.sync(() => memory.give(size)))
  }

const converse = Effect.fnUntraced(function*(connections: Connections) {
  const request = yield* HttpServerRequest.HttpServerRequest
  const memory = yield* RpcMemory
  const socket = yield* request.upgrade
  const writer = yield* socket.writer
  const connection = yield* connections.open({
    write: (line) => Effect.ignore(writer.write(line)),
    end: Effect.void
  })
  const take = receive(connection, memory)
  const takeFrame = (frame: string | Uint8Array) => {
    const received = RpcMessages.parse(frame)
    return Result.isFailure(received)
      ? connection.complain(received.failure.message)
      : Effect.forEach(received.success, take, { discard: true })
  }
  const { pull } = yield* socket.reader
  // A loop in here would hold the last message until the next one comes.
  return yield* pull.pipe(
    Effect.flatMap((frames) => Effect.forEach(frames, takeFrame, { discard: true })),
    Effect.forever({ disableYield: true })
  )
})

export const handle = (connections: Connections) => {
  let open = 0
  const place = Effect.acquireRelease(Effect.sync(() => ++open), () => Effect.sync(() => --open))
  const converseAndClose = converse(connections).pipe(
    Effect.catch((error) => Effect.succeed(isWrongHandshake(error) ? upgradeRequired : HttpServerResponse.empty()))
  )
  return Effect.flatMap(place, (taken) => taken > Limits.rpcSockets ? Effect.succeed(tooManySockets) : converseAndClose)
}
