/** An HTTP proxy on loopback: tunnels (CONNECT) and requests with the whole URL. Every host is on loopback for it. */
import { once } from "node:events"
import { createServer, type IncomingMessage, request as send, type Server } from "node:http"
import { createServer as createSecureServer } from "node:https"
import { type AddressInfo, connect, type Socket } from "node:net"

export interface Asked {
  /** `CONNECT host:port`, or the method and the whole URL. */
  readonly line: string
  readonly authorization: string | undefined
}

export class ForwardProxy {
  readonly asked: Array<Asked> = []
  /** The status of the answer to a tunnel, if it is not opened; 0 for none at all. */
  refusal: number | undefined
  readonly #sockets = new Set<Socket>()
  readonly #server: Server
  readonly #scheme: string

  private constructor(certificate?: { readonly key: string; readonly cert: string }) {
    this.#scheme = certificate === undefined ? "http" : "https"
    this.#server = certificate === undefined ? createServer() : createSecureServer(certificate)
    this.#server.on("connection", (socket: Socket) => this.#keep(socket))
    this.#server.on("connect", (request: IncomingMessage, client: Socket) => this.#tunnel(request, client))
    this.#server.on("request", (request, response) => {
      const asked = this.#note(request)
      if (this.refusal !== undefined) return response.writeHead(this.refusal).end()
      const { pathname, port, search } = new URL(asked)
      const passed = send({
        host: "127.0.0.1",
        port,
        path: pathname + search,
        method: request.method,
        headers: request.headers
      })
      passed.on("response", (found) => found.pipe(response.writeHead(found.statusCode ?? 502, found.headers)))
      passed.on("error", () => response.writeHead(502).end())
      request.pipe(passed)
    })
  }

  static async listen(certificate?: { readonly key: string; readonly cert: string }) {
    const proxy = new ForwardProxy(certificate)
    proxy.#server.listen(0, "127.0.0.1")
    await once(proxy.#server, "listening")
    return proxy
  }

  /** `user` may have a password after a colon. */
  url(user = "", host = "127.0.0.1") {
    const { port } = this.#server.address() as AddressInfo
    return `${this.#scheme}://${user === "" ? "" : `${user}@`}${host}:${port}`
  }

  #keep(socket: Socket) {
    this.#sockets.add(socket)
    socket.on("error", () => {}).on("close", () => this.#sockets.delete(socket))
  }

  #note({ headers, method, url = "" }: IncomingMessage) {
    this.asked.push({ line: `${method} ${url}`, authorization: headers["proxy-authorization"] })
    return url
  }

  #tunnel(request: IncomingMessage, client: Socket) {
    const port = Number(/:(\d+)$/.exec(this.#note(request))?.[1])
    if (this.refusal === 0) return
    if (this.refusal !== undefined) return void client.end(`HTTP/1.1 ${this.refusal} No\r\ncontent-length: 2\r\n\r\nno`)
    const server = connect(port, "127.0.0.1", () => {
      client.write("HTTP/1.1 200 Connection established\r\n\r\n")
      client.pipe(server).pipe(client)
    })
    this.#keep(server)
    server.on("close", () => client.destroy())
    client.on("close", () => server.destroy())
  }

  async close() {
    for (const socket of this.#sockets) socket.destroy()
    await new Promise<void>((resolve) => this.#server.close(() => resolve()))
  }

  [Symbol.asyncDispose]() {
    return this.close()
  }
}
