/**
 * The port by which nodes see whether each other's processes run. It greets each connection, closes it and reads nothing, so that a
 * stranger can neither send a message nor keep memory or a connection.
 */
import { Effect, Layer, Schema } from "effect"
import { createServer, type Server } from "node:net"
import { openSocket } from "../node/Dialer.ts"

interface Address {
  readonly host: string
  readonly port: number
}

const greeting = "async-task-service\n"
/** A connection lives for milliseconds. */
const maxConnections = 200

/** The address is taken, or is not of this machine. */
class ClusterPortError extends Schema.TaggedError<ClusterPortError>()("ClusterPortError", { cause: Schema.Defect() }) {}

/** Nothing listens on the address of a node, or it broke the connection off. */
class NodeUnreachable extends Schema.TaggedError<NodeUnreachable>()("NodeUnreachable", { cause: Schema.Defect() }) {}

const listen = ({ host, port }: Address) =>
  Effect.callback<Server, ClusterPortError>((resume) => {
    const server = createServer({ pauseOnConnect: true }, (socket) => {
      socket.on("error", () => socket.destroy())
      socket.end(greeting, () => socket.destroy())
    })
    server.maxConnections = maxConnections
    server.once("error", (cause) => resume(Effect.fail(new ClusterPortError({ cause }))))
    server.listen({ host, port }, () => resume(Effect.succeed(server)))
  })

export const layer = (address: Address) =>
  Layer.effectDiscard(
    Effect.acquireRelease(
      listen(address),
      (server) => Effect.callback<void>((resume) => void server.close(() => resume(Effect.void)))
    )
  )

/** Succeeds when the process of a node runs. One that is frozen does not answer. */
export const ping = (address: Address): Effect.Effect<void, NodeUnreachable> =>
  Effect.callback((resume) => {
    const socket = openSocket(address)
    const fail = (cause: unknown) => resume(Effect.fail(new NodeUnreachable({ cause })))
    socket.once("error", fail)
    socket.once("close", () => fail("closed"))
    socket.once("data", () => {
      resume(Effect.void)
      socket.destroy()
    })
    return Effect.sync(() => socket.destroy())
  })
