/** Reads `GET /api/tasks/{uuid}/events?include=text` as a strict client: the text is what its events say, and nothing is assumed. */
import { assert } from "vitest"
import { eventually } from "./Service.ts"

interface Received {
  readonly id: string
  readonly event: string
  // oxlint-disable-next-line typescript/no-explicit-any -- the data of any event
  readonly data: any
  /** Milliseconds of `performance.now()`. */
  readonly at: number
}

export class LiveReader {
  readonly events: Array<Received> = []
  text = ""
  /** Texts that replaced another one. */
  replaced = 0
  lastId: string | undefined
  status: number | undefined
  hasEnded = false
  error: unknown
  readonly #controller = new AbortController()

  /** Resolves when the response has begun. */
  static async open(url: string, token: string, uuid: string, lastId?: string, text = "", query = "include=text") {
    const reader = new LiveReader()
    reader.text = text
    reader.lastId = lastId
    const response = await fetch(`${url}/api/tasks/${uuid}/events?${query}`, {
      headers: { authorization: `Bearer ${token}`, ...(lastId === undefined ? {} : { "last-event-id": lastId }) },
      signal: reader.#controller.signal
    })
    reader.status = response.status
    void reader.#read(response)
    return reader
  }

  async #read(response: Response) {
    let rest = ""
    try {
      const decoder = new TextDecoder("utf-8", { fatal: true })
      for await (const chunk of response.body ?? []) {
        const blocks = (rest + decoder.decode(chunk as Uint8Array, { stream: true })).split("\n\n")
        rest = blocks.pop() ?? ""
        for (const block of blocks) this.#take(block)
      }
    } catch (error) {
      this.error = error
    }
    this.hasEnded = true
  }

  #take(block: string) {
    const field = (name: string) =>
      block.split("\n").find((line) => line.startsWith(`${name}: `))?.slice(name.length + 2)
    const [data, id = "", event = ""] = [field("data"), field("id"), field("event")]
    if (data === undefined) return
    const received = { id, event, data: JSON.parse(data), at: performance.now() }
    this.events.push(received)
    this.lastId = id
    if (event !== "text") return
    const { offset, replaced, text } = received.data
    if (replaced === true) {
      this.replaced++
      this.text = this.text.slice(0, 0).padEnd(offset)
    } else assert.strictEqual(offset, this.text.length, "a text begins where the one before ends")
    this.text += text
    assert.strictEqual(id.split(".")[1], String(offset + text.length))
  }

  get texts() {
    return this.events.filter(({ event }) => event === "text")
  }

  close() {
    this.#controller.abort()
  }

  async has(text: string) {
    await eventually(async () => this.text, (read) => read === text)
  }

  async ended() {
    await eventually(async () => this.hasEnded, (hasEnded) => hasEnded)
  }
}
