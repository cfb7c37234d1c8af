/** A client that writes raw bytes and records the responses and the end of the connection. It closes with its test. */
import { once } from "node:events"
import { connect, type Socket } from "node:net"
import { onTestFinished } from "vitest"
import { eventually } from "./Service.ts"

export interface RawAnswer {
  readonly status: number
  readonly head: string
  readonly body: string
}

/** The head of a request, such as `requestHead("GET /healthz", "X: y")`. */
export const requestHead = (line: string, ...headers: ReadonlyArray<string>) =>
  `${[`${line} HTTP/1.1`, "Host: x", ...headers].join("\r\n")}\r\n\r\n`

/** Headers of a WebSocket client. */
export const handshake = [
  "Connection: Upgrade",
  "Upgrade: websocket",
  "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
  "Sec-WebSocket-Version: 13"
]

export class RawClient {
  readonly socket: Socket
  received = ""
  ended: "open" | "closed" | "reset" = "open"

  private constructor(socket: Socket) {
    this.socket = socket
    socket.setEncoding("latin1")
    socket.on("data", (text) => this.received += text)
    socket.on("end", () => this.ended = "closed")
    socket.on("error", () => this.ended = "reset")
    socket.on("close", () => this.ended = this.ended === "open" ? "closed" : this.ended)
  }

  static async open(url: string) {
    const { hostname, port } = new URL(url)
    const socket = connect({ host: hostname, port: Number(port), allowHalfOpen: true })
    onTestFinished(() => void socket.destroy())
    await once(socket, "connect")
    return new RawClient(socket)
  }

  send(bytes: string | Uint8Array) {
    if (this.socket.writable) this.socket.write(typeof bytes === "string" ? Buffer.from(bytes, "latin1") : bytes)
    return this
  }

  /** Writes, and waits while the other side does not read. */
  async sendAll(bytes: Uint8Array) {
    if (this.socket.write(bytes)) return
    await new Promise<void>((resolve) => {
      const go = () => {
        this.socket.off("drain", go).off("close", go)
        resolve()
      }
      this.socket.on("drain", go).on("close", go)
    })
  }

  /** All complete responses so far. Every response of the service has a `Content-Length`. */
  answers(): Array<RawAnswer> {
    const found: Array<RawAnswer> = []
    for (let at = 0;;) {
      const end = this.received.indexOf("\r\n\r\n", at)
      if (end < 0) return found
      const head = this.received.slice(at, end)
      const status = Number(/^HTTP\/1\.1 (\d+)/.exec(head)?.[1])
      const length = status < 200 ? 0 : Number(/content-length: (\d+)/i.exec(head)?.[1] ?? 0)
      at = end + 4 + length
      if (this.received.length < at) return found
      found.push({ status, head, body: this.received.slice(end + 4, at) })
    }
  }

  async answer(index = 0, timeout?: number): Promise<RawAnswer> {
    const found = await eventually(
      async () => this.answers(),
      (answers) => answers.length > index || this.ended !== "open",
      timeout
    )
    const answer = found[index]
    if (answer === undefined) {
      throw new Error(`no answer ${index}; ${this.ended} after ${JSON.stringify(this.received)}`)
    }
    return answer
  }

  close() {
    this.socket.destroy()
  }
}
