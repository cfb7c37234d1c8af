import { Context } from "effect"
import { once } from "node:events"
import { connect, type Server, type Socket } from "node:net"
import { assert, describe, it } from "vitest"
import * as HttpListener from "../../src/runtime/HttpListener.ts"
import { Timeouts } from "../../src/services/Timeouts.ts"

const listen = async () => {
  const server = HttpListener.make(Context.get(Context.empty(), Timeouts))
  server.on("request", (_, response) => response.end("here"))
  await once(server.listen(0, "127.0.0.1"), "listening")
  return server
}

const portOf = (server: Server) => (server.address() as { readonly port: number }).port

/** All that a peer sends until it ends; a reset is an error. */
const answerOf = async (socket: Socket) => {
  let text = ""
  for await (const chunk of socket) text += chunk
  return text
}

const request = "POST / HTTP/1.1\r\nHost: here\r\nContent-Length: 0\r\n\r\n"

describe("a stop", () => {
  it("answers the first request of a connection that was open before", async () => {
    const server = await listen()
    const socket = connect(portOf(server), "127.0.0.1")
    await once(server, "connection")
    const closed = new Promise<void>((resolve) => server.close(() => resolve()))
    await new Promise((resolve) => setTimeout(resolve, 20))
    socket.write(request)
    const answer = await answerOf(socket)
    assert.include(answer, "200 OK")
    assert.include(answer.toLowerCase(), "connection: close")
    await closed
  })

  it("answers those that wait to be taken", async () => {
    const server = await listen()
    const port = portOf(server)
    const sockets = Array.from({ length: 20 }, () => connect(port, "127.0.0.1").setNoDelay())
    for (const socket of sockets) socket.write(request)
    await once(server, "connection")
    const closed = new Promise<void>((resolve) => server.close(() => resolve()))
    for (const answer of await Promise.all(sockets.map(answerOf))) assert.include(answer, "200 OK")
    await closed
  })

  it("does not wait for connections that stay idle", async () => {
    const server = await listen()
    const sockets = Array.from({ length: 3 }, () => connect(portOf(server), "127.0.0.1"))
    await Promise.all(sockets.map((socket) => once(socket, "connect")))
    const startedAt = performance.now()
    await new Promise<void>((resolve) => server.close(() => resolve()))
    assert.isBelow(performance.now() - startedAt, 2000)
    for (const socket of sockets) socket.destroy()
  })
})
