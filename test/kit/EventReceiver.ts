/** The service's side of the core's protocol, as a test scripts it: what each event is answered, and what has arrived. */
import type { IncomingMessage, ServerResponse } from "node:http"
import { text } from "node:stream/consumers"
import { answerJson, LoopbackServer } from "./LoopbackServer.ts"
import { eventually } from "./Service.ts"

export interface ReceivedEvent {
  readonly run_id: string
  readonly event_id: string
  readonly type: string
  // oxlint-disable-next-line typescript/no-explicit-any -- tests look into events of all types
  readonly [field: string]: any
}

interface ScriptedAnswer {
  readonly status: number
  readonly body?: object
  readonly headers?: Record<string, string>
}

export class EventReceiver {
  readonly coreToken = "token-for-the-core"
  readonly eventToken = "token-for-events"
  readonly events: Array<ReceivedEvent & { readonly at: number; readonly answered: number }> = []
  /** How many events each request had. */
  readonly batches: Array<number> = []
  takesBatches = true
  /** Answers an event. */
  answer: (event: ReceivedEvent) => ScriptedAnswer = () => ({ status: 200 })
  /** Answers what is no event. */
  other: (request: IncomingMessage, response: ServerResponse) => unknown = (_, response) =>
    answerJson(response, 404, {})
  readonly #server = new LoopbackServer(async (request, response) => {
    const body = request.url === "/internal/core/events" ? await text(request) : undefined
    if (body === undefined) return this.other(request, response)
    const parsed: ReceivedEvent = JSON.parse(body)
    const isKnown = request.headers.authorization === `Bearer ${this.eventToken}`
    const take = (event: ReceivedEvent) => {
      const { body: fields = {}, headers, status } = isKnown ? this.answer(event) : { status: 401 }
      this.events.push({ ...event, at: performance.now(), answered: status })
      return { headers, status, body: { status: "processing", applied: true, ...fields } }
    }
    const events = this.takesBatches ? parsed["events"] : undefined
    this.batches.push(Array.isArray(events) ? events.length : 1)
    if (!Array.isArray(events)) {
      const { body: answered, headers, status } = take(parsed)
      return answerJson(response, status, answered, headers)
    }
    const results = events.map((event: ReceivedEvent) => {
      const { body: answered, status } = take(event)
      if (status === 200) return answered
      return { message: "No", code: "no", status: status === 409 ? "canceled" : status }
    })
    answerJson(response, 200, { results })
  })

  async listen(port = 0) {
    await this.#server.listen(port)
    return this
  }

  close() {
    return this.#server.close()
  }

  get url() {
    return this.#server.url
  }

  get tokens() {
    return { token: this.coreToken, eventToken: this.eventToken }
  }

  of(runId: string, type?: string) {
    return this.events.filter((event) => event.run_id === runId && (type === undefined || event.type === type))
  }

  /** Waits for an event of the run that has the type, and was answered 200. */
  async until(runId: string, type: string) {
    const found = await eventually(
      () => Promise.resolve(this.of(runId, type).findLast(({ answered }) => answered === 200)),
      (event) => event !== undefined
    )
    return found!
  }

  /** The body of a dispatch. */
  run(more: object = {}) {
    return {
      task_id: crypto.randomUUID(),
      run_id: crypto.randomUUID(),
      assistant_id: 1,
      input: [{ type: "text", text: "Hello" }],
      turns: [],
      client_tools: [],
      llm_model_id: null,
      image_generator_id: null,
      user: { sub: "user-1" },
      user_token: "token-of-the-user",
      deadline_at: new Date(Date.now() + 3_600_000).toISOString(),
      events_url: `${this.url}/internal/core/events`,
      resume: null,
      ...more
    }
  }

  /** A call to a core. */
  request(path: string, body: unknown, token = this.coreToken) {
    return new Request(`http://core${path}`, {
      method: "POST",
      headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
      body: typeof body === "string" ? body : JSON.stringify(body)
    })
  }
}
