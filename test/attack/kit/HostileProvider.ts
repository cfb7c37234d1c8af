/** A model provider with endless responses, sent as fast as the caller reads; each call is bounded in bytes and time. */
import { createServer, type IncomingMessage, type ServerResponse } from "node:http"
import type { AddressInfo } from "node:net"

const maxBytes = 512 * 1024 * 1024
const maxMilliseconds = 20_000

const event = (delta: object) => `data: ${JSON.stringify({ choices: [{ index: 0, delta }] })}\n\n`
const call = (index: number, id: string, name: string, given: string) => ({
  tool_calls: [{ index, id, function: { name, arguments: given } }]
})

interface Behaviour {
  readonly status?: number
  readonly head: string
  /** The `n`th piece after the head. */
  readonly piece: (n: number) => string
}

const filler = "x".repeat(32_000)

/** Responses by the requested model. */
const behaviours: Readonly<Record<string, Behaviour>> = {
  arguments: {
    head: event(call(0, "a", "weather", `{"city":"`)),
    piece: () => event({ tool_calls: [{ index: 0, function: { arguments: filler } }] })
  },
  calls: {
    head: "",
    piece: (n) =>
      Array.from({ length: 100 }, (_, m) => event(call(n * 100 + m, `c${n}-${m}`, "weather", "{}"))).join("")
  },
  text: { head: "", piece: () => event({ content: filler }) },
  line: { head: "data: ", piece: () => filler },
  lines: { head: "", piece: () => `data: ${filler}\n` },
  comments: { head: "", piece: () => ": nothing\n\n".repeat(3000) },
  error: { status: 400, head: "", piece: () => filler },
  image: { head: `{"data":[{"b64_json":"`, piece: () => filler },
  transcription: { head: `{"text":"`, piece: () => filler }
}

export class HostileProvider {
  /** Bytes sent for each model, and whether the caller has closed the connection. */
  readonly sent = new Map<string, { bytes: number; isClosed: boolean }>()
  /** Complete responses of well-behaved models, by name. */
  readonly once = new Map<string, string>()
  readonly #server = createServer((request, response) => void this.#answer(request, response))

  async #answer(request: IncomingMessage, response: ServerResponse) {
    const chunks: Array<Buffer> = []
    for await (const chunk of request) chunks.push(chunk as Buffer)
    const body = Buffer.concat(chunks).toString("latin1")
    const model = /"model":"([a-z]+)"/.exec(body)?.[1] ?? "transcription"
    const whole = this.once.get(model)
    if (whole !== undefined) {
      response.writeHead(200, { "content-type": "text/event-stream" }).end(whole)
      return
    }
    const { head, piece, status = 200 } = behaviours[model]!
    const sent = { bytes: 0, isClosed: false }
    this.sent.set(model, sent)
    response.on("close", () => sent.isClosed = true)
    response.writeHead(status, { "content-type": status === 200 ? "text/event-stream" : "text/plain" })
    response.write(head)
    const end = performance.now() + maxMilliseconds
    for (let n = 0; !sent.isClosed && sent.bytes < maxBytes && performance.now() < end; n++) {
      const next = piece(n)
      sent.bytes += next.length
      if (response.write(next)) await new Promise((resolve) => setImmediate(resolve))
      else await new Promise<void>((resolve) => response.once("drain", resolve).once("close", resolve))
    }
    response.destroy()
  }

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

const endOf = (finish_reason: string) =>
  `data: ${JSON.stringify({ choices: [{ delta: {}, finish_reason }] })}\n\ndata: [DONE]\n\n`

/** The events of a complete response that calls a tool once. */
export const toolCall = (name: string, given: object) =>
  event(call(0, "call_1", name, JSON.stringify(given))) + endOf("tool_calls")

/** The events of a complete response with text. */
export const words = (text: string) => event({ content: text }) + endOf("stop")
