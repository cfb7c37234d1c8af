/** Calls over a WebSocket at `/rpc`. Each message contains only complete lines, so no partial line is buffered between messages. */
import { Effect, Result } from "effect"
import { HttpServerError, HttpServerRequest, HttpServerResponse } from "effect/http"
import type { Socket } from "effect/socket"
import * as Limits from "../../domain/Limits.ts"
import { codeOfStatus } from "../contract/ErrorCodes.ts"
import type { Grants } from "../handlers/rpc/RpcAuthorization.ts"
import type { Connection, Connections } from "./RpcConnections.ts"
import { busy, type RpcMemory } from "./RpcMemory.ts"
import * as RpcMessages from "./RpcMessages.ts"

export const upgradeRequired = HttpServerResponse.jsonUnsafe(
  { message: "Use POST, or upgrade to a WebSocket.", code: codeOfStatus(426) },
  { status: 426, headers: { upgrade: "websocket" } }
)

const tooManySockets = HttpServerResponse.jsonUnsafe(
  { message: `This node already serves its maximum of ${Limits.rpcSockets} WebSockets.`, code: "too_busy" },
  { status: 503 }
)

/** A failed handshake is a fault of the client. */
const isHandshakeError = (error: Socket.SocketError | HttpServerError.HttpServerError) =>
  HttpServerError.isHttpServerError(error) || error.reason._tag === "SocketOpenError"

const receive = (
  { decode }: Connections,
  connection: Connection,
  memory: RpcMemory,
  grants: Grants
) =>
  Effect.fnUntraced(function*({ message, size }: RpcMessages.Received) {
    if (message._tag !== "Request") return yield* connection.control(message)
    if (connection.isInFlight(message.id)) return yield* connection.reportError("Each call needs an id of its own")
    const decoded = yield* Effect.result(decode(message, grants))
    if (Result.isFailure(decoded)) return yield* connection.fail(message.id, decoded.failure)
    // Refused instead of queued, because reading must continue: streams in flight need their acknowledgements.
    if (connection.inFlight() >= Limits.rpcCalls || !memory.reserve(size)) {
      return yield* connection.fail(message.id, busy)
    }
    yield* connection.begin(decoded.success, Effect.sync(() => memory.release(size)))
  })

const serve = Effect.fnUntraced(function*(connections: Connections, memory: RpcMemory, grants: Grants) {
  const request = yield* HttpServerRequest.HttpServerRequest
  const socket = yield* request.upgrade
  const writer = yield* socket.writer
  const connection = yield* connections.open({
    write: (line) => Effect.ignore(writer.write(line)),
    end: Effect.void
  })
  const receiveMessage = receive(connections, connection, memory, grants)
  const receiveFrame = (frame: string | Uint8Array) =>
    Effect.matchEffect(RpcMessages.parse(frame), {
      onSuccess: (received) => Effect.forEach(received, receiveMessage, { discard: true }),
      onFailure: ({ message }) => connection.reportError(message)
    })
  const { pull } = yield* socket.reader
  // A generator loop would keep the last message in memory until the next one arrives.
  return yield* pull.pipe(
    Effect.flatMap((frames) => Effect.forEach(frames, receiveFrame, { discard: true })),
    Effect.forever({ disableYield: true })
  )
})

export const handle = (connections: Connections, memory: RpcMemory) => {
  let open = 0
  const countOpen = Effect.acquireRelease(Effect.sync(() => ++open), () => Effect.sync(() => --open))
  const serveAndClose = (grants: Grants) =>
    serve(connections, memory, grants).pipe(
      Effect.catch((error) => Effect.succeed(isHandshakeError(error) ? upgradeRequired : HttpServerResponse.empty()))
    )
  return (grants: Grants) =>
    Effect.flatMap(
      countOpen,
      (count) => count > Limits.rpcSockets ? Effect.succeed(tooManySockets) : serveAndClose(grants)
    )
}
