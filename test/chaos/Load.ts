/** Clients and a core that keep a service busy over real sockets, and remember what they were told. */
import { randomUUID } from "node:crypto"
import { report, ScriptedCore, type StartedRun, turnOf } from "../kit/ScriptedCore.ts"
import { mint } from "../kit/Service.ts"

const pause = (millis: number) => new Promise((resolve) => setTimeout(resolve, millis))
const upTo = (millis: number) => pause(Math.random() * millis)

interface Answer {
  readonly status: number
  // oxlint-disable-next-line typescript/no-explicit-any -- answers of every shape
  readonly body: any
}

export class Load {
  readonly core = new ScriptedCore()
  /** Tasks that a client was told of, with the user's token. */
  readonly acknowledged = new Map<string, string>()
  /** Tasks of which a node told the core more than once that their end was applied. */
  readonly twiceTerminal = new Set<string>()
  /** When the last create was answered. */
  lastAnswer = 0
  readonly #ended = new Set<string>()
  readonly #runs = new Set<string>()
  readonly #url: string
  #isOver = false

  constructor(url: string) {
    this.#url = url
    this.core.onStart = (run) => {
      void this.#work(run)
      return Math.random() < 0.05 ? 503 : 202
    }
  }

  /** Ends when the load is finished and every user has had the last answer. */
  live(users: number) {
    return Promise.all(Array.from({ length: users }, (_, user) => this.#live(`user-${user}`)))
  }

  /** No more creates. */
  finish() {
    this.#isOver = true
  }

  /** Asks once; undefined without an answer. */
  async #ask(method: string, path: string, token: string, body?: object, key?: string): Promise<Answer | undefined> {
    try {
      const response = await fetch(this.#url + path, {
        method,
        headers: {
          authorization: `Bearer ${token}`,
          "content-type": "application/json",
          ...(key === undefined ? {} : { "idempotency-key": key })
        },
        signal: AbortSignal.timeout(5000),
        ...(body === undefined ? {} : { body: JSON.stringify(body) })
      })
      return response.status >= 500 ? undefined : { status: response.status, body: await response.json() }
    } catch {
      return undefined
    }
  }

  async #insist(method: string, path: string, token: string, body?: object): Promise<Answer> {
    const key = randomUUID()
    for (;;) {
      const answer = await this.#ask(method, path, token, body, method === "POST" ? key : undefined)
      if (answer !== undefined) return answer
      await upTo(100)
    }
  }

  async #live(user: string) {
    const token = await mint(user)
    while (!this.#isOver) {
      const body = { assistant_id: 1, input: [{ type: "text", text: "Why?" }], max_execution_time: 600 }
      const { body: created, status } = await this.#insist("POST", "/api/tasks", token, body)
      this.lastAnswer = performance.now()
      if (status === 201) {
        this.acknowledged.set(created.uuid, token)
        void this.#follow(created.uuid, token)
      }
      await upTo(300)
    }
  }

  /** Answers the task's interrupts until it has ended; a task that is lost is 404. */
  async #follow(uuid: string, token: string) {
    for (;;) {
      await upTo(400)
      const { body: task, status } = await this.#insist("GET", `/api/tasks/${uuid}`, token)
      if (status !== 200 || task.completed_at !== null) return
      if (task.status !== "interrupted") continue
      const results = task.pending_tool_calls.map(({ id }: { id: string }) => ({ tool_call_id: id, output: 1 }))
      await this.#insist("POST", `/api/tasks/${uuid}/tool-results`, token, { results })
    }
  }

  /** A run that is offered again is the same run. */
  async #work(run: StartedRun) {
    if (this.#runs.has(run.run_id)) return
    this.#runs.add(run.run_id)
    await upTo(500)
    const script = run.resume === null && Math.random() < 0.3
      ? { type: "interrupted", state: null, tool_calls: [{ id: "c", name: "look", arguments: {} }] }
      : { type: "completed", turn: turnOf("done") }
    for (const event of [{ type: "processing" }, script]) {
      if (!await this.#report(run, event)) return
      await upTo(500)
    }
  }

  /** Reports until it is answered; whether the run goes on. */
  async #report(run: StartedRun, event: object) {
    const named = { event_id: randomUUID(), ...event }
    for (;;) {
      try {
        const { body, status } = await report(run, named)
        if (status < 500) {
          if ("turn" in named && body["applied"] === true) {
            if (this.#ended.has(run.task_id)) this.twiceTerminal.add(run.task_id)
            this.#ended.add(run.task_id)
          }
          return status === 200
        }
      } catch {
        // The node is away.
      }
      await upTo(300)
    }
  }
}
