/** `client.tasks`: every call on tasks, with waiting, following and running tools built from them. */
import { AbortError, ApiError, ConflictError } from "./ApiErrors.ts"
import * as EventStream from "./EventStream.ts"
import { TaskPages } from "./TaskPages.ts"
import * as Tools from "./Tools.ts"
import { type Call, type CallOptions, randomName, sleep, type Transport } from "./Transport.ts"
import type {
  CanceledTask,
  CanceledTasks,
  CreatedTask,
  CreateTask,
  Delivery,
  ResumedTask,
  Task,
  TaskEvent,
  TaskPageBody,
  TaskStatus,
  ToolResult
} from "./Types.ts"

export interface ListOptions extends CallOptions {
  readonly status?: TaskStatus | ReadonlyArray<TaskStatus> | undefined
  /** From 1. */
  readonly page?: number | undefined
  /** 1 to 100; 25 by default. */
  readonly per_page?: number | undefined
}

export interface EventsOptions extends CallOptions {
  /** The revision that was seen last; from the beginning without it. */
  readonly after?: number | undefined
}

export interface RunOptions extends CallOptions {
  /** By name: what answers the model's calls. A tool that is not among `client_tools` is added to them. */
  readonly tools?: Tools.Tools | undefined
  /** Called with the task whenever it was created, interrupted or has ended. */
  readonly onUpdate?: ((task: Task) => void) | undefined
}

/** Seconds that the service holds an answer, within what proxies allow. */
const waitSeconds = 25
/** Milliseconds between two looks at a service that does not hold its answers, and before a stream is opened again. */
const pause = 1000
const maxPause = 30_000

const ended: ReadonlySet<TaskStatus> = new Set(["completed", "failed", "canceled"])

export const isTerminal = (task: { readonly status: TaskStatus }): boolean => ended.has(task.status)

const address = (uuid: string, rest = "") => `/api/tasks/${encodeURIComponent(uuid)}${rest}`

/** A request that takes effect once, however often it is sent. */
const once = (path: string, body: unknown, options: CallOptions): Call => ({
  ...options,
  method: "POST",
  path,
  body: JSON.stringify(body),
  headers: {
    "content-type": "application/json",
    "idempotency-key": options.idempotencyKey ?? randomName()
  }
})

export class TasksResource {
  readonly #transport: Transport

  constructor(transport: Transport) {
    this.#transport = transport
  }

  create(body: CreateTask, options: CallOptions = {}): Promise<CreatedTask> {
    return this.#transport.json(once("/api/tasks", body, options))
  }

  get(uuid: string, options: CallOptions = {}): Promise<Task> {
    return this.#transport.json({ ...options, method: "GET", path: address(uuid) })
  }

  /** The caller's tasks, newest first: await it for one page, or `for await` for all of them. */
  list({ page = 1, per_page, status, ...options }: ListOptions = {}): TaskPages {
    const fetchPage = (number: number) => {
      const query = new URLSearchParams({ page: String(number) })
      if (per_page !== undefined) query.set("per_page", String(per_page))
      if (status !== undefined) query.set("status", typeof status === "string" ? status : status.join(","))
      return this.#transport.json<TaskPageBody>({ ...options, method: "GET", path: `/api/tasks?${query}` })
    }
    return new TaskPages(fetchPage, page)
  }

  submitToolResults(uuid: string, results: ReadonlyArray<ToolResult>, options: CallOptions = {}): Promise<ResumedTask> {
    return this.#transport.json(once(address(uuid, "/tool-results"), { results }, options))
  }

  /** Cancels an interrupted task. */
  cancel(
    uuid: string,
    { reason, ...options }: CallOptions & { readonly reason?: string } = {}
  ): Promise<CanceledTask> {
    return this.#transport.json(once(address(uuid, "/cancel"), reason === undefined ? {} : { reason }, options))
  }

  /** Cancels all of the caller's interrupted tasks. */
  cancelInterrupted(options: CallOptions = {}): Promise<CanceledTasks> {
    return this.#transport.json({ ...options, method: "POST", path: "/api/tasks/cancel-interrupted" })
  }

  /** Webhooks of the task with their attempts, oldest first. */
  async deliveries(uuid: string, options: CallOptions = {}): Promise<ReadonlyArray<Delivery>> {
    const path = address(uuid, "/deliveries")
    const { data } = await this.#transport.json<{ data: ReadonlyArray<Delivery> }>({ ...options, method: "GET", path })
    return data
  }

  /** Sends a webhook once more. One that was delivered is signed only when its secret is given again. */
  redeliver(
    uuid: string,
    deliveryId: string,
    { callback_secret, ...options }: CallOptions & { readonly callback_secret?: string } = {}
  ): Promise<Delivery> {
    return this.#transport.json({
      ...options,
      method: "POST",
      path: address(uuid, `/deliveries/${encodeURIComponent(deliveryId)}/redeliver`),
      ...(callback_secret === undefined
        ? {}
        : { body: JSON.stringify({ callback_secret }), headers: { "content-type": "application/json" } })
    })
  }

  /** Waits until the task has ended or is interrupted, however long that takes: bound it by an `AbortSignal`. */
  async waitFor(uuid: string, options: CallOptions = {}): Promise<Task> {
    for (;;) {
      const begun = performance.now()
      const task = await this.#transport.json<Task>({
        ...options,
        method: "GET",
        path: address(uuid, `?wait=${waitSeconds}`)
      })
      if (isTerminal(task) || task.status === "interrupted") return task
      const left = pause - (performance.now() - begun)
      if (left > 0) await sleep(left, options.signal)
    }
  }

  /** Creates a task, answers its tool calls, and resolves once it has ended, in whichever way: look at its `status`. */
  async run(body: CreateTask, { onUpdate, tools = {}, ...options }: RunOptions = {}): Promise<Task> {
    const { uuid } = await this.create(Tools.declare(body, tools), options)
    const following = { ...options, idempotencyKey: undefined }
    if (onUpdate !== undefined) onUpdate(await this.get(uuid, following))
    for (;;) {
      const task = await this.waitFor(uuid, following)
      onUpdate?.(task)
      if (task.status !== "interrupted") return task
      const results = await Tools.answer(task, tools, options.signal)
      try {
        await this.submitToolResults(uuid, results, following)
      } catch (error) {
        // The task has moved on: its time was up, or someone else answered or canceled it.
        if (!(error instanceof ConflictError)) throw error
      }
    }
  }

  /** Each transition and progress note, from the beginning or after a revision; it reconnects by itself and ends with the task. */
  async *events(
    uuid: string,
    { after = -1, ...options }: EventsOptions = {}
  ): AsyncGenerator<TaskEvent, void, undefined> {
    let last = after
    for (let failures = 0;;) {
      try {
        const response = await this.#transport.open({
          ...options,
          method: "GET",
          path: address(uuid, "/events"),
          headers: { accept: "text/event-stream", ...(last < 0 ? {} : { "last-event-id": String(last) }) }
        })
        if (response.status === 204 || response.body === null) return
        for await (const { data, event } of EventStream.read(response.body)) {
          const told = { ...JSON.parse(data) as TaskEvent, event: event as TaskEvent["event"] }
          failures = 0
          last = told.revision
          yield told
          if (isTerminal(told)) return
        }
      } catch (error) {
        if (options.signal?.aborted === true) {
          throw new AbortError("The call was aborted", { cause: options.signal.reason })
        }
        if (isRefusal(error)) throw error
        failures++
      }
      await sleep(Math.min(maxPause, pause * 2 ** failures) * (0.75 + Math.random() / 2), options.signal)
    }
  }
}

/** An answer that another attempt would not change. A connection that broke off is none. */
const isRefusal = (error: unknown) =>
  error instanceof ApiError && error.status < 500 && error.status !== 408 && error.status !== 429
