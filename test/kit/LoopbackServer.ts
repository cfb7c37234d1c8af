/** An HTTP server on a free loopback port, which responds as a test or a subclass defines. */
import { once } from "node:events"
import { createServer, type IncomingMessage, type ServerResponse } from "node:http"
import type { AddressInfo } from "node:net"

export type Respond = (request: IncomingMessage, response: ServerResponse) => unknown

export class LoopbackServer {
  respond: Respond
  readonly #server = createServer({ requestTimeout: 0 }, (request, response) => void this.respond(request, response))

  constructor(respond: Respond = () => {}) {
    this.respond = respond
  }

  async listen(port = 0) {
    this.#server.listen(port, "127.0.0.1")
    await once(this.#server, "listening")
    return this
  }

  get url() {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`
  }

  async close() {
    this.#server.closeAllConnections()
    await new Promise<void>((resolve) => this.#server.close(() => resolve()))
  }
}

export const answerJson = (response: ServerResponse, status: number, body: unknown, headers = {}) =>
  response.writeHead(status, { "content-type": "application/json", ...headers }).end(JSON.stringify(body))
