/**
 * Persistent clients: they retry each request with one idempotency key until it succeeds, and follow tasks to the end.
 */
import { randomUUID } from "node:crypto"
import { pause } from "../kit/pause.ts"
import { internalToken, mint } from "../kit/Service.ts"
import { upTo } from "./chance.ts"
import { type Plan, textOf } from "./Plan.ts"
import { type Expectation, Recorder, type TaskAnswer } from "./Recorder.ts"
import { faulty, type Target } from "./Target.ts"

const askTimeout = 5000
/** A task that has not ended after this time is stuck. */
const timeout = 60_000

export interface Created {
  readonly uuid: string
  readonly token: string
}

interface Order {
  readonly token: string
  readonly plan: Plan
  readonly limit?: number
  readonly expected?: Expectation
}

const well: Expectation = { status: "completed", error: null }

export class Clients {
  recorder = new Recorder()
  readonly #url: string
  readonly #target: Target

  constructor(url: string, target: Target) {
    this.#url = url
    this.#target = target
  }

  async #request(method: string, path: string, token: string, body: object | undefined, key: string) {
    try {
      const response = await fetch(this.#url + path, {
        method,
        headers: {
          authorization: `Bearer ${token}`,
          ...(method === "POST" ? { "content-type": "application/json", "idempotency-key": key } : {})
        },
        signal: AbortSignal.timeout(askTimeout),
        ...(body === undefined ? {} : { body: JSON.stringify(body) })
      })
      const text = await response.text()
      return response.status >= 500 ? undefined : { status: response.status, body: JSON.parse(text || "null") }
    } catch {
      return undefined
    }
  }

  async #insist(method: string, path: string, token: string, body?: object) {
    const key = randomUUID()
    for (;;) {
      const response = await this.#request(method, path, token, body, key)
      if (response !== undefined) return response
      await upTo(50)
    }
  }

  /** Undefined when the user has too many active tasks. */
  async create({ expected = well, limit = 600, plan, token }: Order): Promise<Created | undefined> {
    const { body, status } = await this.#insist("POST", "/api/tasks", token, {
      assistant_id: 1,
      input: [{ type: "text", text: textOf(plan) }],
      max_execution_time: limit,
      callback_url: this.#target.urlOf(
        plan.hold === "delivering" ? plan.gate : plan.pace > 0 ? faulty : "sound",
        plan.number
      ),
      callback_secret: "secret"
    })
    if (status === 429) return undefined
    if (status !== 201) throw new Error(`create returned ${status}: ${JSON.stringify(body)}`)
    this.recorder.acknowledged.set(body.uuid, expected)
    return { uuid: body.uuid, token }
  }

  /** Reads the task with a long poll of 2 s. */
  async #read({ token, uuid }: Created): Promise<TaskAnswer> {
    const { body, status } = await this.#insist("GET", `/api/tasks/${uuid}?wait=2`, token)
    if (status === 200) return body
    this.recorder.broke("lost", uuid, `read returned ${status}`)
    return undefined
  }

  /**
   * Sends tool results for the task's interrupts until it has ended; returns the moment when the client saw the end.
   */
  async follow(created: Created): Promise<number> {
    const { recorder } = this
    const end = performance.now() + timeout
    while (performance.now() < end) {
      const task = await this.#read(created)
      if (task === undefined || recorder.read(task)) return performance.now()
      if (task.status === "interrupted") await this.resume(created, task)
      await pause(50)
    }
    recorder.broke("stuck", created.uuid, `did not end in ${timeout} ms`)
    return performance.now()
  }

  async resume({ token, uuid }: Created, task: TaskAnswer) {
    const results = task.pending_tool_calls.map(({ id }: { readonly id: string }) => ({ tool_call_id: id, output: 1 }))
    await this.#insist("POST", `/api/tasks/${uuid}/tool-results`, token, { results })
  }

  /** Sends tool results for the first interrupt only. */
  async resumeFirst(created: Created) {
    for (;;) {
      const task = await this.#read(created)
      if (task.status === "interrupted") return this.resume(created, task)
      await pause(50)
    }
  }

  cancel({ token, uuid }: Created) {
    return this.#insist("POST", `/api/tasks/${uuid}/cancel`, token, { reason: "no more" })
  }

  revoke(token: string) {
    return this.#insist("POST", "/internal/tokens/revoke", internalToken, { token })
  }

  /** Creates and follows tasks until `isOver`. */
  async live(user: string, plan: () => Plan, rest: number, isOver: () => boolean) {
    const token = await mint(user)
    const followed: Array<Promise<unknown>> = []
    while (!isOver()) {
      const created = await this.create({ token, plan: plan() })
      if (created !== undefined) followed.push(this.follow(created))
      await upTo(rest)
    }
    await Promise.all(followed)
  }
}
