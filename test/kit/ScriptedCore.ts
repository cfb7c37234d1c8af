/** A processing core on a real socket that records requests and responds as a test defines. */
import { randomUUID } from "node:crypto"
import type { ServerResponse } from "node:http"
import { buffer } from "node:stream/consumers"
import { LoopbackServer, type Respond } from "./LoopbackServer.ts"
import { eventually, internalToken } from "./Service.ts"

export interface StartedRun {
  readonly task_id: string
  readonly run_id: string
  readonly events_url: string
  readonly user_token: string
  readonly input: ReadonlyArray<{ readonly type: string; readonly text?: string }>
  readonly resume: unknown
  readonly [field: string]: unknown
}

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
export const toolCall = { id: "c1", name: "look", arguments: {} }

export const complete = (run: StartedRun, text = "done", headers = {}) =>
  report(run, { type: "completed", turn: turnOf(text) }, headers)
export const interrupt = (run: StartedRun, more: object = {}, headers = {}) =>
  report(run, { type: "interrupted", tool_calls: [toolCall], ...more }, headers)

export class ScriptedCore extends LoopbackServer {
  readonly runs: Array<StartedRun> = []
  /** `traceparent` of the calls that started them. */
  readonly traceparents = new Map<string, string | undefined>()
  readonly stops: Array<{ readonly runId: string; readonly reason: string }> = []
  /** Returns the status of the response to a start. */
  onStart: (run: StartedRun, response: ServerResponse) => Promise<number> | number = () => 202
  /** The body with which the core accepts a run. */
  declaration: object | undefined
  onStop: (runId: string) => number = () => 202
  /** Bytes of a request. A larger run is accepted and forgotten, because parsed JSON takes many times its size. */
  largest = Infinity

  override respond: Respond = async (request, response) => {
    const bytes = await buffer(request)
    if (bytes.length > this.largest) return response.writeHead(202).end()
    // oxlint-disable-next-line typescript/no-explicit-any -- a run or the reason of a stop
    const body: any = JSON.parse(bytes.toString())
    const [, , runId = "", action] = (request.url ?? "").split("/")
    if (action === "stop") {
      this.stops.push({ runId, reason: body.reason })
      return response.writeHead(this.onStop(runId)).end()
    }
    this.runs.push(body)
    this.traceparents.set(body.run_id, request.headers["traceparent"] as string | undefined)
    return response.writeHead(await this.onStart(body, response)).end(
      this.declaration && JSON.stringify(this.declaration)
    )
  }

  /** The latest run of a task, if any. */
  runOf(taskId: string): StartedRun | undefined {
    return this.runs.findLast(({ task_id }) => task_id === taskId)
  }

  /** Waits until the latest run of a task is not `earlier`, and returns it. */
  async run(taskId: string, earlier?: StartedRun): Promise<StartedRun> {
    const isNew = (run: StartedRun | undefined) => run !== undefined && run.run_id !== earlier?.run_id
    return (await eventually(async () => this.runOf(taskId), isNew))!
  }

  /** Waits until the core has received a stop of the run. */
  stopped({ run_id }: StartedRun) {
    return eventually(async () => this.stops, (stops) => stops.some(({ runId }) => runId === run_id))
  }
}
