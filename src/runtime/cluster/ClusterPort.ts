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

/** Says where the internal interface of the node is. */
const greetingOf = (internalPort: number) => `async-task-service ${internalPort}\n`
const greetingPattern = /^async-task-service (\d{1,5})\n/
/** A connection lives for milliseconds. */
const maxConnections = 200

/** The address is taken, or is not of this machine. */
export class ClusterPortError extends Schema.TaggedError<ClusterPortError>()("ClusterPortError", {
  cause: Schema.Defect()
}) {}

/** Nothing listens on the address of a node, or it broke the connection off. */
class NodeUnreachable extends Schema.TaggedError<NodeUnreachable>()("NodeUnreachable", { cause: Schema.Defect() }) {}

const listen = ({ host, port }: Address, internalPort: number) =>
  Effect.callback<Server, ClusterPortError>((resume) => {
    const server = createServer({ pauseOnConnect: true }, (socket) => {
      socket.on("error", () => socket.destroy())
      socket.end(greetingOf(internalPort), () => socket.destroy())
    })
    server.maxConnections = maxConnections
    server.once("error", (cause) => resume(Effect.fail(new ClusterPortError({ cause }))))
    server.listen({ host, port, exclusive: true }, () => resume(Effect.succeed(server)))
  })

export const layer = (address: Address, internalPort: number) =>
  Layer.effectDiscard(
    Effect.acquireRelease(
      listen(address, internalPort),
      (server) => Effect.callback<void>((resume) => void server.close(() => resume(Effect.void)))
    )
  )

/** Returns the internal port of a node whose process runs; undefined of an older version. One that is frozen does not answer. */
export const ping = (address: Address): Effect.Effect<number | undefined, NodeUnreachable> =>
  Effect.callback((resume) => {
    const socket = openSocket(address)
    const fail = (cause: unknown) => resume(Effect.fail(new NodeUnreachable({ cause })))
    socket.once("error", fail)
    socket.once("close", () => fail("closed"))
    socket.once("data", (greeting) => {
      const port = greetingPattern.exec(String(greeting))?.[1]
      resume(Effect.succeed(port === undefined ? undefined : Number(port)))
      socket.destroy()
    })
    return Effect.sync(() => socket.destroy())
  })
