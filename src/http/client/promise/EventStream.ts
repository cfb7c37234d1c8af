/** Parses server-sent events (WHATWG HTML) from a response body. */

interface ServerSentEvent {
  readonly id: string
  readonly event: string
  readonly data: string
}

export async function* read(body: ReadableStream<Uint8Array>): AsyncGenerator<ServerSentEvent, void, undefined> {
  const reader = body.getReader()
  const decoder = new TextDecoder()
  let [rest, id, event] = ["", "", ""]
  let data: Array<string> = []
  try {
    for (;;) {
      const { done, value } = await reader.read()
      if (done) return
      const lines = (rest + decoder.decode(value, { stream: true })).split(/\r\n|\n|\r(?!$)/)
      rest = lines.pop() ?? ""
      for (const line of lines) {
        if (line === "") {
          if (data.length > 0) yield { id, event: event === "" ? "message" : event, data: data.join("\n") }
          event = ""
          data = []
          continue
        }
        const [, field, text = ""] = /^([^:]*)(?:: ?(.*))?$/.exec(line) ?? []
        if (field === "id") id = text
        else if (field === "event") event = text
        else if (field === "data") data.push(text)
      }
    }
  } finally {
    // Closes the connection when the consumer stops early.
    await reader.cancel().catch(() => {})
  }
}
