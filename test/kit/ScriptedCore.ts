/** A processing core on a real socket that records requests and responds as a test defines. */
import { randomUUID } from "node:crypto"
import { createServer, type IncomingMessage, type ServerResponse } from "node:http"
import type { AddressInfo } from "node:net"

export interface StartedRun {
  readonly task_id: string
  readonly run_id: string
  readonly events_url: string
  readonly user_token: string
  readonly input: ReadonlyArray<{ readonly type: string; readonly text?: string }>
  readonly resume: unknown
  readonly [field: string]: unknown
}

const readBody = async (request: IncomingMessage) => {
  const chunks: Array<Buffer> = []
  for await (const chunk of request) chunks.push(chunk as Buffer)
  return JSON.parse(Buffer.concat(chunks).toString() || "null")
}

export const internalToken = "internal-token-of-the-tests"

/** Reports one event of a run; returns the status and body. */
export const report = async (run: StartedRun, event: object, headers: Readonly<Record<string, string>> = {}) => {
  const response = await fetch(run.events_url, {
    method: "POST",
    headers: { authorization: `Bearer ${internalToken}`, "content-type": "application/json", ...headers },
    body: JSON.stringify({ event_id: randomUUID(), ...event, task_id: run.task_id, run_id: run.run_id })
  })
  return { status: response.status, body: await response.json() as Record<string, unknown> }
}

export const turnOf = (text: string) => ({ output: [{ type: "text", text }], messages: [], metadata: {} })

export class ScriptedCore {
  readonly runs: Array<StartedRun> = []
  /** `traceparent` of the calls that started them. */
  readonly traceparents = new Map<string, string | undefined>()
  readonly stops: Array<{ readonly runId: string; readonly reason: string }> = []
  /** Returns the status of the response to a start. */
  onStart: (run: StartedRun, response: ServerResponse) => Promise<number> | number = () => 202
  onStop: (runId: string) => number = () => 202
  readonly #server = createServer(async (request, response) => {
    const body = await readBody(request)
    const [, , runId, action] = (request.url ?? "").split("/")
    if (action === "stop") {
      this.stops.push({ runId: runId ?? "", reason: body.reason })
      return response.writeHead(this.onStop(runId ?? "")).end()
    }
    this.runs.push(body)
    this.traceparents.set(body.run_id, request.headers["traceparent"] as string | undefined)
    return response.writeHead(await this.onStart(body, response)).end()
  })

  async listen() {
    await new Promise<void>((resolve) => this.#server.listen(0, "127.0.0.1", () => resolve()))
    return this
  }

  get url() {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`
  }

  runOf(taskId: string): StartedRun | undefined {
    return this.runs.findLast(({ task_id }) => task_id === taskId)
  }

  async close() {
    this.#server.closeAllConnections()
    await new Promise<void>((resolve) => this.#server.close(() => resolve()))
  }
}
