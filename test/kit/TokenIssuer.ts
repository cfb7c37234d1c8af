/** What `TOKEN_URL` names: it mints a token of the user that it is asked for, or answers as it is told. */
import { createServer } from "node:http"
import type { AddressInfo } from "node:net"
import { mint } from "./Service.ts"

interface Asked {
  readonly authorization: string | undefined
  readonly sub: string
  readonly schedule_id: string
}

export class TokenIssuer {
  readonly asked: Array<Asked> = []
  /** The status of the answers, by user; 200 if absent. */
  readonly status = new Map<string, number>()
  /** How many requests are still answered with 503, by user. */
  readonly unavailable = new Map<string, number>()
  /** Claims of the tokens. */
  claims: Record<string, unknown> = {}
  /** The user whose tokens are answered instead of the asked one. */
  readonly other = new Map<string, string>()
  readonly #server = createServer((request, response) => {
    const chunks: Array<Buffer> = []
    request.on("data", (chunk: Buffer) => chunks.push(chunk))
    request.on("end", () => {
      const { schedule_id, sub } = JSON.parse(Buffer.concat(chunks).toString())
      this.asked.push({ authorization: request.headers.authorization, sub, schedule_id })
      const left = this.unavailable.get(sub) ?? 0
      this.unavailable.set(sub, left - 1)
      const status = left > 0 ? 503 : this.status.get(sub) ?? 200
      void mint(this.other.get(sub) ?? sub, this.claims).then((token) => {
        response.writeHead(status, { "content-type": "application/json" })
        response.end(JSON.stringify(status < 300 ? { token } : { message: "no" }))
      })
    })
  })

  async listen() {
    await new Promise<void>((resolve) => this.#server.listen(0, "127.0.0.1", resolve))
    return this
  }

  get url() {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}/token`
  }

  close() {
    this.#server.closeAllConnections()
    this.#server.close()
  }
}
