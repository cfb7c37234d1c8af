/** A model provider on a real socket whose responses never end; records when the caller closes the connection. */
import { createServer } from "node:http"
import type { AddressInfo } from "node:net"

export interface Call {
  readonly authorization: string | undefined
  readonly path: string | undefined
  words: number
  isClosed: boolean
}

export class EndlessProvider {
  readonly calls: Array<Call> = []
  readonly #server = createServer((request, response) => {
    const call: Call = { authorization: request.headers.authorization, path: request.url, words: 0, isClosed: false }
    this.calls.push(call)
    response.writeHead(200, { "content-type": "text/event-stream" })
    const timer = setInterval(() => {
      const delta = { content: `word${call.words++} ` }
      response.write(`data: ${JSON.stringify({ choices: [{ index: 0, delta }] })}\n\n`)
    }, 5)
    request.socket.on("close", () => {
      clearInterval(timer)
      call.isClosed = true
    })
  })

  async listen() {
    await new Promise<void>((resolve) => this.#server.listen(0, "127.0.0.1", () => resolve()))
    return this
  }

  get url() {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`
  }

  close() {
    this.#server.closeAllConnections()
    this.#server.close()
  }
}
