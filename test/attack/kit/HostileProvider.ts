/** A model provider with endless responses, sent as fast as the caller reads; each call is bounded in bytes and time. */
import { text } from "node:stream/consumers"
import { LoopbackServer, type Respond } from "../../kit/LoopbackServer.ts"

const maxBytes = 512 * 1024 * 1024
const maxMilliseconds = 20_000

const event = (delta: object) => `data: ${JSON.stringify({ choices: [{ index: 0, delta }] })}\n\n`
const call = (index: number, id: string, name: string, given: string) => ({
  tool_calls: [{ index, id, function: { name, arguments: given } }]
})

interface Behavior {
  readonly status?: number
  readonly head: string
  /** The `n`th piece after the head. */
  readonly piece: (n: number) => string
  /** Milliseconds between two pieces. */
  readonly pause?: number
}

const filler = "x".repeat(32_000)

/** Responses by the requested model. */
const behaviors: Readonly<Record<string, Behavior>> = {
  arguments: {
    head: event(call(0, "a", "weather", `{"city":"`)),
    piece: () => event({ tool_calls: [{ index: 0, function: { arguments: filler } }] })
  },
  calls: {
    head: "",
    piece: (n) =>
      Array.from({ length: 100 }, (_, m) => event(call(n * 100 + m, `c${n}-${m}`, "weather", "{}"))).join("")
  },
  names: {
    head: event(call(0, "a", "weather", "[")),
    piece: (n) => Array.from({ length: 100 }, (_, m) => event(call(0, `c${n}-${m}`, "weather", "[],"))).join("")
  },
  text: { head: "", piece: () => event({ content: filler }) },
  line: { head: "data: ", piece: () => filler },
  lines: { head: "", piece: () => `data: ${filler}\n` },
  comments: { head: "", piece: () => ": nothing\n\n".repeat(3000) },
  events: { head: "", piece: () => "data:{}\n\n".repeat(4000) },
  error: { status: 400, head: "", piece: () => filler },
  image: { head: `{"data":[{"b64_json":"`, piece: () => filler },
  transcription: { head: `{"text":"`, piece: () => filler },
  talker: { head: "", piece: (n) => event({ content: `word${n} ` }), pause: 5 }
}

export class HostileProvider extends LoopbackServer {
  /** Bytes sent for each model, and whether the caller has closed the connection. */
  readonly sent = new Map<string, { bytes: number; isClosed: boolean; readonly authorization: string | undefined }>()
  /** Complete responses of well-behaved models, by name. */
  readonly once = new Map<string, string>()

  override respond: Respond = async (request, response) => {
    const model = /"model":"([a-z]+)"/.exec(await text(request))?.[1] ?? "transcription"
    const whole = this.once.get(model)
    if (whole !== undefined) {
      response.writeHead(200, { "content-type": "text/event-stream" }).end(whole)
      return
    }
    const { head, pause, piece, status = 200 } = behaviors[model]!
    const sent = { bytes: 0, isClosed: false, authorization: request.headers.authorization }
    this.sent.set(model, sent)
    response.on("close", () => sent.isClosed = true)
    response.writeHead(status, { "content-type": status === 200 ? "text/event-stream" : "text/plain" })
    response.write(head)
    const end = performance.now() + maxMilliseconds
    for (let n = 0; !sent.isClosed && sent.bytes < maxBytes && performance.now() < end; n++) {
      const next = piece(n)
      sent.bytes += next.length
      if (pause !== undefined) await new Promise((resolve) => setTimeout(resolve, pause))
      if (response.write(next)) await new Promise((resolve) => setImmediate(resolve))
      else await new Promise<void>((resolve) => response.once("drain", resolve).once("close", resolve))
    }
    response.destroy()
  }
}

const endOf = (finish_reason: string) =>
  `data: ${JSON.stringify({ choices: [{ delta: {}, finish_reason }] })}\n\ndata: [DONE]\n\n`

/** The events of a complete response that calls a tool once. */
export const toolCall = (name: string, given: object) =>
  event(call(0, "call_1", name, JSON.stringify(given))) + endOf("tool_calls")

/** The events of a complete response with text. */
export const words = (text: string) => event({ content: text }) + endOf("stop")
