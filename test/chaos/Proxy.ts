/**
 * A TCP proxy between a node and its database. It can cut or refuse connections, drop all bytes, or lose a response.
 */
import { Effect, Redacted } from "effect"
import { once } from "node:events"
import { type AddressInfo, connect, createServer, type Socket } from "node:net"

/** `black hole`: connections are accepted, but no byte arrives on any of them. */
export type Weather = "fair" | "losing replies" | "black hole"

export class Proxy {
  /** A proxy in front of a database, and the URL of the database through it. Closed with the scope. */
  static readonly scoped = Effect.fnUntraced(function*(databaseUrl: string) {
    const proxy = yield* Effect.acquireRelease(
      Effect.promise(() => Proxy.before(databaseUrl)),
      (opened) => Effect.promise(() => opened.close())
    )
    return { proxy, url: Redacted.make(proxy.urlOf(databaseUrl)) }
  })

  static before(databaseUrl: string) {
    return new Proxy({ port: Number(new URL(databaseUrl).port) }).listen()
  }

  /** The URL of a database through this proxy. */
  urlOf(databaseUrl: string) {
    const url = new URL(databaseUrl)
    url.port = String(this.port)
    return url.href
  }

  weather: Weather = "fair"
  /** Delay of a response in milliseconds. When it shrinks, later responses may overtake delayed ones. */
  delay = 0
  readonly #pairs = new Set<readonly [Socket, Socket]>()
  /** No byte passes any more, not even the end of the connection, so each side considers the other alive. */
  readonly #silent = new Set<readonly [Socket, Socket]>()
  readonly #server = createServer({ allowHalfOpen: false })

  constructor(target: { readonly port: number }) {
    this.#server.on("connection", (client) => {
      const server = connect(target.port, "127.0.0.1")
      const pair = [client, server] as const
      this.#pairs.add(pair)
      if (this.weather === "black hole") this.#silent.add(pair)
      const close = () => {
        if (this.#silent.has(pair)) return
        this.#pairs.delete(pair)
        client.destroy()
        server.destroy()
      }
      for (const socket of pair) socket.on("error", close).on("close", close)
      client.on("data", (chunk) => this.#silent.has(pair) || server.write(chunk))
      server.on("data", (chunk) => {
        if (this.#silent.has(pair)) return
        // Postgres has executed the statement, but the node never learns that.
        if (this.weather === "losing replies") close()
        else if (this.delay === 0) client.write(chunk)
        else setTimeout(() => client.write(chunk), this.delay)
      })
    })
  }

  async listen() {
    this.#server.listen(0, "127.0.0.1")
    await once(this.#server, "listening")
    return this
  }

  get port() {
    return (this.#server.address() as AddressInfo).port
  }

  cut() {
    for (const [client] of this.#pairs) client.destroy()
  }

  /** Drops all further bytes on the present connections. New connections work. */
  silence() {
    for (const pair of this.#pairs) this.#silent.add(pair)
  }

  /** Refuses new connections, like a server that is not running. */
  async refuse() {
    const { port } = this
    this.#server.close()
    this.cut()
    await once(this.#server, "close")
    return async () => {
      this.#server.listen(port, "127.0.0.1")
      await once(this.#server, "listening")
    }
  }

  /** Drops all bytes on present and new connections until the returned function is called. */
  swallow() {
    this.weather = "black hole"
    this.silence()
    return () => {
      this.weather = "fair"
    }
  }

  async close() {
    for (const pair of this.#pairs) for (const socket of pair) socket.destroy()
    if (!this.#server.listening) return
    this.#server.close()
    await once(this.#server, "close")
  }
}
