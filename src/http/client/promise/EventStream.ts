/** Parses server-sent events (WHATWG HTML) from a response body, in time linear in its size. */
import { ConnectionError } from "./ApiErrors.ts"

interface ServerSentEvent {
  readonly id: string
  readonly event: string
  readonly data: string
}

/** Milliseconds without a byte after which the stream is broken. The service sends some every 15 s. */
const maxSilence = 60_000

/** Batches of lines. There is no timeout while the consumer is busy. */
async function* linesOf(
  body: ReadableStream<Uint8Array>,
  allow: (timeout: number) => void
): AsyncGenerator<ReadonlyArray<string>, void, undefined> {
  const reader = body.getReader()
  const decoder = new TextDecoder()
  /** The pieces of a line that has not ended. A large line arrives in many chunks, so they are joined once. */
  let pieces: Array<string> = []
  let endsInCr = false
  try {
    for (;;) {
      allow(maxSilence)
      const { done, value } = await reader.read().catch((cause: unknown) => {
        throw new ConnectionError("The event stream broke", { cause })
      })
      allow(Infinity)
      if (done) return
      const text = decoder.decode(value, { stream: true })
      if (text === "") continue
      const [first = "", ...others] = (endsInCr && text.startsWith("\n") ? text.slice(1) : text).split(/\r\n|\n|\r/)
      endsInCr = text.endsWith("\r")
      pieces.push(first)
      const rest = others.pop()
      if (rest === undefined) continue
      yield [pieces.join(""), ...others]
      pieces = [rest]
    }
  } finally {
    // Closes the connection when the consumer stops early.
    await reader.cancel().catch(() => {})
  }
}

const fieldOf = (line: string): readonly [name: string, value: string] => {
  const colon = line.indexOf(":")
  if (colon < 0) return [line, ""]
  return [line.slice(0, colon), line.slice(line[colon + 1] === " " ? colon + 2 : colon + 1)]
}

/** `allow` starts the timeout of the connection again. */
export async function* read(
  body: ReadableStream<Uint8Array>,
  allow: (timeout: number) => void
): AsyncGenerator<ServerSentEvent, void, undefined> {
  let [id, event] = ["", ""]
  let data: Array<string> = []
  for await (const lines of linesOf(body, allow)) {
    for (const line of lines) {
      if (line === "") {
        if (data.length > 0) yield { id, event: event === "" ? "message" : event, data: data.join("\n") }
        event = ""
        data = []
        continue
      }
      const [name, value] = fieldOf(line)
      if (name === "id") id = value
      else if (name === "event") event = value
      else if (name === "data") data.push(value)
    }
  }
}
