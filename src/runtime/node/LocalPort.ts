/** Ports of this machine's loopback interface. */
import { Effect } from "effect"
import { createServer, type Server } from "node:net"

/** The port of a listening server. */
export const portOf = (server: Server): number => {
  const address = server.address()
  if (address === null || typeof address === "string") throw new Error("The server has no port")
  return address.port
}

/** A port that is free now. */
export const freePort = Effect.callback<number>((resume) => {
  const server = createServer().listen(0, "127.0.0.1", () => {
    const port = portOf(server)
    server.close(() => resume(Effect.succeed(port)))
  })
})
