/**
 * A TCP proxy between a node and its database. It can cut or refuse connections, drop all bytes, lose a response, or be a
 * distant or narrow link.
 */
import { Effect, Redacted } from "effect"
import { once } from "node:events"
import { type AddressInfo, connect, createServer, type Socket } from "node:net"

/** `black hole`: connections are accepted, but no byte arrives on any of them. */
export type Weather = "fair" | "losing replies" | "black hole"

/** Bytes on their way to `target`. */
interface Parcel {
  readonly isLost: () => boolean
  readonly chunk: Buffer
  readonly target: Socket
  /** In milliseconds of `performance.now`. */
  readonly arrivesAt: number
}

/** Passes the chunks of one direction: all connections share the bandwidth, and each chunk arrives after the latency. */
class Direction {
  readonly #link: Link
  readonly #parcels: Array<Parcel> = []
  /** When the last chunk to each target arrives. */
  readonly #lastOf = new WeakMap<Socket, number>()
  #freeAt = 0

  constructor(link: Link) {
    this.#link = link
  }

  /** Writes the chunk to `target` when it has crossed the link, unless it is lost then. `extra` milliseconds are added to the latency. */
  pass(chunk: Buffer, target: Socket, isLost: () => boolean, extra = 0) {
    const { bytesPerSecond, latency } = this.#link
    const present = performance.now()
    this.#freeAt = Math.max(this.#freeAt, present) + chunk.length / bytesPerSecond * 1000
    // The bytes of a connection stay in their order also when the link becomes shorter.
    const arrivesAt = Math.max(this.#freeAt + latency + extra, this.#lastOf.get(target) ?? 0)
    this.#lastOf.set(target, arrivesAt)
    if (this.#parcels.length === 0 && arrivesAt - present < 1) return void target.write(chunk)
    const before = this.#parcels.findLastIndex((parcel) => parcel.arrivesAt <= arrivesAt)
    this.#parcels.splice(before + 1, 0, { chunk, target, isLost, arrivesAt })
    setTimeout(() => this.#deliver(), arrivesAt - present)
  }

  /** Timers may fire early, by as long as the turn of the event loop that set them, and in another order than the chunks. */
  #deliver() {
    for (let first = this.#parcels[0]; first !== undefined; first = this.#parcels[0]) {
      const early = first.arrivesAt - performance.now()
      if (early > 1) return void setTimeout(() => this.#deliver(), early)
      this.#parcels.shift()
      if (first.target.writable && !first.isLost()) first.target.write(first.chunk)
    }
  }
}

interface Link {
  /** Milliseconds from one end to the other: half of the round trip. */
  latency: number
  /** In each direction, shared by all connections. */
  bytesPerSecond: number
  /** Milliseconds that the server takes for a login. */
  login: number
}

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
  /** Ends further connections at once while so many are open. */
  maxConnections = Infinity
  readonly link: Link = { latency: 0, bytesPerSecond: Infinity, login: 0 }
  readonly #toServer = new Direction(this.link)
  readonly #toClient = new Direction(this.link)
  readonly #pairs = new Set<readonly [Socket, Socket]>()
  /** No byte passes any more, not even the end of the connection, so each side considers the other alive. */
  readonly #silent = new Set<readonly [Socket, Socket]>()
  readonly #server = createServer({ allowHalfOpen: false })

  constructor(target: { readonly port: number }) {
    this.#server.on("connection", (client) => {
      if (this.size >= this.maxConnections) return void client.destroy()
      const server = connect(target.port, "127.0.0.1")
      const pair = [client, server] as const
      this.#pairs.add(pair)
      if (this.weather === "black hole") this.#silent.add(pair)
      const isSilent = () => this.#silent.has(pair)
      const close = () => {
        if (isSilent()) return
        this.#pairs.delete(pair)
        client.destroy()
        server.destroy()
      }
      for (const socket of pair) socket.on("error", close).on("close", close)
      client.on("data", (chunk: Buffer) => isSilent() || this.#toServer.pass(this.#rewritten(chunk), server, isSilent))
      let isLoggedIn = false
      server.on("data", (chunk: Buffer) => {
        if (isSilent()) return
        // Postgres has executed the statement, but the node never learns that.
        if (this.weather === "losing replies") return close()
        this.#toClient.pass(chunk, client, isSilent, isLoggedIn ? 0 : this.link.login)
        isLoggedIn = true
      })
    })
  }

  async listen() {
    this.#server.listen(0, "127.0.0.1")
    await once(this.#server, "listening")
    return this
  }

  /** Connections that bytes pass on. */
  get size() {
    return [...this.#pairs].filter((pair) => !this.#silent.has(pair)).length
  }

  get port() {
    return (this.#server.address() as AddressInfo).port
  }

  cut() {
    for (const [client] of this.#pairs) client.destroy()
  }

  /** Drops all bytes on the present connections from now on, those on their way too. New connections work. */
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

  #rewriting: readonly [string, string] | undefined

  #rewritten(chunk: Buffer) {
    if (this.#rewriting === undefined) return chunk
    const [from, to] = this.#rewriting
    const at = chunk.indexOf(from)
    return at < 0 ? chunk : Buffer.concat([chunk.subarray(0, at), Buffer.from(to), chunk.subarray(at + from.length)])
  }

  /** Replaces a part of statements by one of the same length until the returned function is called. */
  rewrite(from: string, to: string) {
    this.#rewriting = [from, to]
    return () => {
      this.#rewriting = undefined
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
