/** Ports of this machine's loopback interface. */
import { Effect } from "effect"
import { createServer, type Server } from "node:net"

/** The port of a listening server. */
export const portOf = (server: Server): number => {
  const address = server.address()
  if (address === null || typeof address === "string") throw new Error("The server has no port")
  return address.port
}

const listen = Effect.callback<Server>((resume) => {
  const server = createServer().listen(0, "127.0.0.1", () => resume(Effect.succeed(server)))
})

const close = (server: Server) => Effect.callback<void>((resume) => void server.close(() => resume(Effect.void)))

/** Different ports that are free now: all are taken before one is given back. */
export const freePorts = Effect.fnUntraced(function*(count: number) {
  const servers = yield* Effect.replicateEffect(listen, count)
  const ports = servers.map(portOf)
  yield* Effect.forEach(servers, close, { discard: true })
  return ports
})

/** A port that is free now. */
export const freePort = Effect.map(freePorts(1), ([port]) => port!)
