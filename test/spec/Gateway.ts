/**
 * What the tables of the specification are run against: the service as a client, a core and a webhook target see it. Nothing here
 * or in the tables comes from the sources of the service, so that an error there cannot agree with itself.
 */
import { randomUUID } from "node:crypto"
import { type Answer, eventually } from "../kit/Service.ts"

export interface Run {
  readonly task_id: string
  readonly run_id: string
}

export interface Post {
  readonly headers: Readonly<Record<string, string | ReadonlyArray<string> | undefined>>
  /** The bytes, as text. */
  readonly body: string
  /** Milliseconds of some clock. */
  readonly at: number
}

/** A change of the defaults, in seconds. */
export interface Times {
  readonly acceptance?: number
  readonly retention?: number
}

export interface Service {
  readonly url: string
  readonly fetch: typeof globalThis.fetch
  readonly internalToken: string
  readonly hookUrl: string
  readonly token: (sub: string, claims?: Readonly<Record<string, unknown>>) => Promise<string>
  /** The status with which the core answers the start of runs. It accepts each at first, and reports nothing of its own. */
  readonly answerRuns: (status: number) => void
  /** Waits until the core has a run of the task, other than `earlier`. */
  readonly run: (uuid: string, earlier?: Run) => Promise<Run>
  /** How often a core on a socket was asked to start a run of the task, whatever it answered. */
  readonly starts: (uuid: string) => number
  /** Reasons of the stops of a run that the core has received. */
  readonly stops: (run: Run) => ReadonlyArray<string>
  /** Webhooks that have arrived, oldest first. */
  readonly posts: (uuid: string) => ReadonlyArray<Post>
  /** The status with which the webhook target answers. */
  readonly answerPosts: (status: number) => void
  /** Lets time pass on the clock that decides. */
  readonly pass: (seconds: number) => Promise<void>
  readonly close: () => Promise<void>
}

/** How to start one, and how long its limits are: of real time, a test has only seconds. */
export interface Door {
  readonly isVirtual: boolean
  readonly start: (times?: Times) => Promise<Service>
  /** Seconds. The defaults where time is virtual. */
  readonly acceptance: number
  readonly limit: number
  readonly retention: number
}

export class Gateway {
  readonly service: Service
  #users = 0

  constructor(service: Service) {
    this.service = service
  }

  /** Of real time, the limits that are named are a few seconds; of virtual time, they are the defaults. */
  static async start(door: Door, ...shortened: ReadonlyArray<keyof Times>) {
    const times = door.isVirtual ? {} : Object.fromEntries(shortened.map((name) => [name, door[name]]))
    return new Gateway(await door.start(times))
  }

  close() {
    return this.service.close()
  }

  /** The token of a user that nobody else is. */
  user(claims?: Readonly<Record<string, unknown>>) {
    return this.service.token(`user-${++this.#users}`, claims)
  }

  async call(
    method: string,
    path: string,
    token: string | undefined,
    body?: unknown,
    headers: Readonly<Record<string, string>> = {}
  ): Promise<Answer> {
    const isForm = body instanceof FormData
    const response = await this.service.fetch(this.service.url + path, {
      method,
      headers: {
        ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
        ...(body === undefined || isForm ? {} : { "content-type": "application/json" }),
        ...headers
      },
      ...(body === undefined ? {} : { body: isForm || typeof body === "string" ? body : JSON.stringify(body) })
    })
    const text = await response.text()
    return {
      status: response.status,
      headers: response.headers,
      text,
      body: /^[{[]/.test(text) ? JSON.parse(text) : text
    }
  }

  create(token: string | undefined, more: object = {}) {
    return this.call("POST", "/api/tasks", token, { assistant_id: 1, input: [{ type: "text", text: "x" }], ...more })
  }

  get(token: string | undefined, uuid: string) {
    return this.call("GET", `/api/tasks/${uuid}`, token)
  }

  upload(token: string | undefined, name: string, type: string, content = "x") {
    const form = new FormData()
    form.set("file", new File([content], name, { type }))
    return this.call("POST", "/api/files", token, form)
  }

  /** Reports an event of a run, as a core does. */
  report(run: Run, event: object) {
    return this.call("POST", "/internal/core/events", this.service.internalToken, {
      event_id: randomUUID(),
      ...event,
      ...run
    })
  }

  rpc(tag: string, payload: object) {
    const line = JSON.stringify({ _tag: "Request", id: "1", tag, payload, headers: [] })
    return this.call("POST", "/rpc", this.service.internalToken, line, { "content-type": "application/ndjson" })
  }

  revoke(token: string) {
    return this.call("POST", "/internal/tokens/revoke", this.service.internalToken, { token })
  }

  async until(token: string, uuid: string, status: string): Promise<Answer["body"]> {
    return (await eventually(() => this.get(token, uuid), ({ body }) => body.status === status, 30_000)).body
  }

  /** Waits until as many webhooks of the task have arrived; returns the status in each. They come in any order. */
  async told(uuid: string, count: number) {
    const posts = await eventually(async () => this.service.posts(uuid), ({ length }) => length >= count)
    return posts.map(({ body }) => JSON.parse(body).status as string)
  }
}
