/** A load balancer: one address for all nodes, which forwards each request to the next ready node. */
import { type ClientRequest, type IncomingMessage, request, type ServerResponse } from "node:http"
import { buffer } from "node:stream/consumers"
import { answerJson, LoopbackServer, type Respond } from "../kit/LoopbackServer.ts"

const checkInterval = 100
const checkTimeout = 1000

interface Backend {
  readonly port: number
  isReady: boolean
  readonly inFlight: Set<ClientRequest>
}

const refuse = (response: ServerResponse, status: number, message: string) => {
  if (response.headersSent) response.destroy()
  else answerJson(response, status, { message })
}

export class Balancer extends LoopbackServer {
  readonly #backends: ReadonlyArray<Backend>
  readonly #checks: ReadonlyArray<NodeJS.Timeout>
  #turn = 0

  override respond: Respond = async (incoming, response) => this.#forward(incoming, await buffer(incoming), response)

  constructor(ports: ReadonlyArray<number>) {
    super()
    this.#backends = ports.map((port) => ({ port, isReady: false, inFlight: new Set() }))
    this.#checks = this.#backends.map((backend) => {
      let isAsking = false
      return setInterval(async () => {
        if (isAsking) return
        isAsking = true
        await this.#check(backend)
        isAsking = false
      }, checkInterval)
    })
  }

  /**
   * A node that reports not ready finishes its requests in flight. Requests to a node that does not respond are
   * aborted.
   */
  async #check(backend: Backend) {
    const signal = AbortSignal.timeout(checkTimeout)
    const status = await fetch(`http://127.0.0.1:${backend.port}/readyz`, { signal }).then(
      (reply) => reply.text().then(() => reply.status),
      () => undefined
    )
    backend.isReady = status === 200
    if (status !== undefined) return
    for (const call of backend.inFlight) call.destroy(new Error("the node does not respond"))
  }

  #forward(incoming: IncomingMessage, body: Buffer, response: ServerResponse, tried: ReadonlyArray<Backend> = []) {
    const ready = this.#backends.filter((backend) => backend.isReady && !tried.includes(backend))
    const backend = ready[this.#turn++ % ready.length]
    if (backend === undefined) return refuse(response, 503, "No node is ready")
    const call = request(
      {
        host: "127.0.0.1",
        port: backend.port,
        method: incoming.method,
        path: incoming.url,
        headers: { ...incoming.headers, connection: "close" },
        agent: false
      },
      (reply) => {
        const { connection: _, ...headers } = reply.headers
        response.writeHead(reply.statusCode ?? 502, headers)
        reply.on("error", () => response.destroy()).pipe(response)
      }
    )
    backend.inFlight.add(call)
    call.on("close", () => backend.inFlight.delete(call))
    call.on("error", (error: NodeJS.ErrnoException) => {
      // Only a request that no node has received may be sent to another one.
      if (error.code === "ECONNREFUSED") this.#forward(incoming, body, response, [...tried, backend])
      else refuse(response, 502, error.message)
    })
    response.on("close", () => call.destroy())
    call.end(body)
  }

  override close() {
    for (const check of this.#checks) clearInterval(check)
    return super.close()
  }
}
