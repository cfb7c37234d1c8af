import { Context } from "effect"
import { once } from "node:events"
import { connect, type Server, type Socket } from "node:net"
import { assert, describe, it } from "vitest"
import { type Bounds, defaultBounds } from "../../../src/runtime/node/ConnectionLimits.ts"
import * as HttpListener from "../../../src/runtime/node/HttpListener.ts"
import { Timeouts } from "../../../src/services/timing/Intervals.ts"

/** More than the kernel holds for a peer that does not read. */
const large = Buffer.alloc(32 * 1024 * 1024)

const listen = async (bounds: Partial<Bounds> = {}) => {
  const server = HttpListener.make(Context.get(Context.empty(), Timeouts), { ...defaultBounds, ...bounds })
  server.on("request", ({ url }, response) => {
    if (url !== "/slow") response.end(url === "/large" ? large : "here")
  })
  await once(server.listen(0, "127.0.0.1"), "listening")
  return server
}

const portOf = (server: Server) => (server.address() as { readonly port: number }).port

/** Reads everything that a peer sends until it closes; a reset is an error. */
const answerOf = async (socket: Socket) => {
  let text = ""
  for await (const chunk of socket) text += chunk
  return text
}

const request = "POST / HTTP/1.1\r\nHost: here\r\nContent-Length: 0\r\n\r\n"

it("refuses CONNECT with the methods that are allowed", async () => {
  const server = await listen()
  const socket = connect(portOf(server), "127.0.0.1")
  socket.write("CONNECT x:443 HTTP/1.1\r\nHost: x\r\n\r\n")
  const answer = await answerOf(socket)
  assert.match(answer, /^HTTP\/1\.1 405 /)
  assert.include(answer, "\r\nAllow: GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS\r\n")
  server.close()
})

describe("pipelined requests", () => {
  it("begin one after the other, with those of others between them", async () => {
    const server = await listen()
    const begun: Array<string> = []
    server.on("request", ({ url }) => begun.push(url ?? ""))
    const get = (url: string) => `GET ${url} HTTP/1.1\r\nHost: here\r\n\r\n`
    const [many, one] = [connect(portOf(server), "127.0.0.1"), connect(portOf(server), "127.0.0.1")]
    await Promise.all([once(many, "connect"), once(one, "connect")])
    let answers = ""
    many.on("data", (chunk) => answers += chunk)
    many.write(Array.from({ length: 200 }, (_, number) => get(`/${number}`)).join(""))
    one.write(get("/one"))
    await once(one, "data")
    assert.isBelow(begun.indexOf("/one"), 100)
    while (answers.split("200 OK").length < 201) await once(many, "data")
    assert.deepEqual(begun.filter((url) => url !== "/one"), Array.from({ length: 200 }, (_, number) => `/${number}`))
    many.destroy()
    one.destroy()
    server.close()
  })

  it.each([
    ["heads", `GET /waits HTTP/1.1\r\nHost: here\r\nX-Long: ${"x".repeat(15_000)}\r\n\r\n`],
    ["bodies", `POST /waits HTTP/1.1\r\nHost: here\r\nContent-Length: 15000\r\n\r\n${"x".repeat(15_000)}`]
  ])("have bounded %s: connections beyond the bound are closed", async (_, waits) => {
    const server = await listen()
    // 3.4 MB each, of 16 MiB.
    const sockets = Array.from({ length: 8 }, () => connect(portOf(server), "127.0.0.1").on("error", () => {}))
    let closed = 0
    await new Promise<void>((resolve) => {
      for (const socket of sockets) {
        socket.on("close", () => ++closed === 4 && resolve()).resume()
        socket.write("GET /slow HTTP/1.1\r\nHost: here\r\n\r\n" + waits.repeat(200))
      }
    })
    // Those that are left are within the bound, and wait.
    const other = connect(portOf(server), "127.0.0.1")
    other.write(request.replace("POST", "GET"))
    await once(other, "data")
    assert.strictEqual(closed, 4)
    other.destroy()
    for (const socket of sockets) socket.destroy()
    server.close()
  })

  it("behind which something cannot be answered keep their responses for themselves", async () => {
    for (const next of ["CONNECT x:443 HTTP/1.1\r\nHost: x\r\n\r\n", "no request\r\n\r\n"]) {
      const server = await listen()
      const socket = connect(portOf(server), "127.0.0.1").on("error", () => {})
      socket.write("GET /slow HTTP/1.1\r\nHost: here\r\n\r\n" + next)
      assert.strictEqual(await answerOf(socket).catch(() => ""), "")
      server.close()
    }
  })

  it("are not begun after a response that closes their connection", async () => {
    const server = await listen()
    const begun: Array<string> = []
    server.on("request", ({ url }) => begun.push(url ?? ""))
    const socket = connect(portOf(server), "127.0.0.1")
    socket.write(
      "GET /first HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\nGET /second HTTP/1.1\r\nHost: here\r\n\r\n"
    )
    assert.include(await answerOf(socket), "200 OK")
    assert.deepEqual(begun, ["/first"])
    server.close()
  })
})

it("keeps nothing on a connection of requests whose bodies nobody reads", async () => {
  const server = await listen()
  const accepted = once(server, "connection") as Promise<[Socket]>
  const socket = connect(portOf(server), "127.0.0.1")
  const [connection] = await accepted
  const before = connection.listenerCount("close")
  for (let number = 0; number < 20; number++) {
    // The response does not wait for the rest of the body.
    socket.write("POST / HTTP/1.1\r\nHost: here\r\nContent-Length: 4\r\n\r\nab")
    await once(socket, "data")
    socket.write("cd")
  }
  socket.write("GET / HTTP/1.1\r\nHost: here\r\n\r\n")
  await once(socket, "data")
  assert.isAtMost(connection.listenerCount("close"), before + 1)
  socket.destroy()
  server.close()
})

describe("a shutdown", () => {
  it("answers the first request of a connection that was opened before it", async () => {
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

  it.each([0, 20])("answers connections that wait in the accept queue, when a turn takes %s ms", async (millis) => {
    const server = await listen()
    server.on("connection", () => {
      const until = performance.now() + millis
      while (performance.now() < until);
    })
    const port = portOf(server)
    const sockets = Array.from({ length: 20 }, () => connect(port, "127.0.0.1").setNoDelay())
    for (const socket of sockets) socket.write(request)
    await once(server, "connection")
    const closed = new Promise<void>((resolve) => server.close(() => resolve()))
    for (const answer of await Promise.all(sockets.map(answerOf))) assert.include(answer, "200 OK")
    await closed
  })

  it("ends although others keep connecting", async () => {
    const server = await listen()
    const port = portOf(server)
    const startedAt = performance.now()
    server.on("connection", () => connect(port, "127.0.0.1").on("error", () => {}).end())
    connect(port, "127.0.0.1").end()
    await once(server, "connection")
    await new Promise<void>((resolve) => server.close(() => resolve()))
    assert.isBelow(performance.now() - startedAt, 5000)
  })

  it("does not wait for connections that stay idle", async () => {
    const server = await listen()
    const sockets = Array.from({ length: 3 }, () => connect(portOf(server), "127.0.0.1"))
    await Promise.all(sockets.map((socket) => once(socket, "connect")))
    const startedAt = performance.now()
    await new Promise<void>((resolve) => server.close(() => resolve()))
    assert.isBelow(performance.now() - startedAt, 5000)
    for (const socket of sockets) socket.destroy()
  })
})

describe("a connection above the maximum", () => {
  it("replaces the oldest connection without a request, and never one with a request", async () => {
    const server = await listen({ connections: 3 })
    const open = async (text: string) => {
      const socket = connect(portOf(server), "127.0.0.1")
      await once(server, "connection")
      socket.write(text)
      return socket
    }
    const slow = await open("GET /slow HTTP/1.1\r\nHost: here\r\n\r\n")
    await once(server, "request")
    const idle = [await open("GET / HT"), await open("")]
    const newest = await open("GET / HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n")
    assert.include(await answerOf(newest), "200 OK")
    assert.strictEqual(await answerOf(idle[0]!), "")
    assert.deepStrictEqual([slow.readyState, idle[1]?.readyState], ["open", "open"])
    for (const socket of [slow, ...idle]) socket.destroy()
    server.close()
  })

  it("replaces the slowest reader when none is idle", async () => {
    const server = await listen({ connections: 2 })
    const [first, second] = [await openReader(server), await openReader(server)]
    const newest = connect(portOf(server), "127.0.0.1")
    newest.write("GET / HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n")
    assert.include(await answerOf(newest), "200 OK")
    assert.isBelow(await drain(first), large.length)
    assert.isAbove(await drain(second), large.length)
    server.close()
  })
})

/** A connection that has requested a large response and reads nothing of it yet. `closed` is about the server's side. */
const openReader = async (server: Server, requests = 1) => {
  const socket = connect(portOf(server), "127.0.0.1").pause()
  // A dropped connection is reset.
  socket.on("error", () => {})
  const [accepted] = await once(server, "connection")
  const closed = once(accepted, "close")
  let received = 0
  const hasAll = new Promise<void>((resolve) => {
    const count = () => ++received === requests && resolve()
    server.on("request", count)
  })
  socket.write("GET /large HTTP/1.1\r\nHost: here\r\n\r\n".repeat(requests))
  await hasAll
  return { socket, closed }
}

/** The number of bytes that a peer can read until its connection ends or has none for a moment. */
const drain = async ({ socket }: { readonly socket: Socket }) => {
  let bytes = 0
  socket.on("data", (chunk: Buffer) => bytes += chunk.length).resume().setTimeout(1000)
  await new Promise<void>((resolve) => socket.once("timeout", resolve).once("close", () => resolve()))
  socket.destroy()
  return bytes
}

describe("responses that nobody reads", () => {
  it("are dropped beyond a bound, the oldest first", async () => {
    const server = await listen({ unreadBytes: 2.5 * large.length })
    const [first, second, third] = [await openReader(server), await openReader(server), await openReader(server)]
    await first.closed
    assert.isBelow(await drain(first), large.length)
    assert.isAbove(await drain(second), large.length)
    assert.isAbove(await drain(third), large.length)
    server.close()
  })
})
