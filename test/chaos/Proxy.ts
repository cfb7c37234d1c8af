/** The network between a node and its database: it can be cut, closed, swallow all bytes, or lose the reply of a statement. */
import { once } from "node:events"
import { type AddressInfo, connect, createServer, type Socket } from "node:net"

/** `black hole`: connections are accepted, and nothing that is sent on any of them arrives. */
export type Weather = "fair" | "losing replies" | "black hole"

export class Proxy {
  weather: Weather = "fair"
  /** Milliseconds that a reply takes; replies that are under way when it shrinks may be passed by others. */
  delay = 0
  readonly #pairs = new Set<readonly [Socket, Socket]>()
  /** Nothing passes here any more, not even an end: each side believes in the other. */
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
        // The statement has been carried out; who sent it will never know.
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

  /** Connections made from now on are fine. */
  silence() {
    for (const pair of this.#pairs) this.#silent.add(pair)
  }

  /** From now on connections are refused, as by a server that is not running. */
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

  /** Nothing arrives any more, on present connections and on new ones, until the returned function is called. */
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
