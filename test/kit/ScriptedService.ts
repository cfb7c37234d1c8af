/** A service on a real socket that responds as the test defines, and records its requests. */
import { createServer, type IncomingMessage, type ServerResponse } from "node:http"
import type { AddressInfo } from "node:net"

export interface Received {
  readonly method: string
  readonly path: string
  readonly headers: IncomingMessage["headers"]
  readonly body: string
  readonly at: number
}

type Script = (request: Received, response: ServerResponse, number: number) => void

export const answer = (response: ServerResponse, status: number, body: unknown, headers: Record<string, string> = {}) =>
  response.writeHead(status, { "content-type": "application/json", ...headers }).end(JSON.stringify(body))

export class ScriptedService {
  readonly received: Array<Received> = []
  readonly #server = createServer(async (request, response) => {
    const chunks: Array<Buffer> = []
    try {
      for await (const chunk of request) chunks.push(chunk as Buffer)
    } catch {
      return
    }
    const received: Received = {
      method: request.method ?? "",
      path: request.url ?? "",
      headers: request.headers,
      body: Buffer.concat(chunks).toString(),
      at: performance.now()
    }
    this.received.push(received)
    this.script(received, response, this.received.length)
  })
  script: Script = (_, response) => answer(response, 200, {})

  async listen() {
    await new Promise<void>((resolve) => this.#server.listen(0, "127.0.0.1", () => resolve()))
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
