/** `client.tasks`: the task endpoints, and `waitFor`, `run` and `events` on top of them. */
import { outputText } from "../../../domain/Turn.ts"
import { ApiError, ConflictError } from "./ApiErrors.ts"
import * as EventStream from "./EventStream.ts"
import { LiveText } from "./LiveText.ts"
import { Outage } from "./Outage.ts"
import { type TaskPageBody, TaskPages } from "./TaskPages.ts"
import { textChanges } from "./TextChanges.ts"
import * as Tools from "./Tools.ts"
import {
  backoff,
  type Call,
  type CallOptions,
  queryOf,
  randomId,
  separate,
  sleep,
  type Transport
} from "./Transport.ts"
import type {
  CanceledTask,
  CanceledTasks,
  CreatedTask,
  CreateTask,
  Delivery,
  GetTaskQuery,
  ListTasksQuery,
  RerunTask,
  ResumedTask,
  Task,
  TaskEvent,
  TaskStatus,
  ToolResult
} from "./Types.ts"

export interface ListOptions extends CallOptions, ListTasksQuery {}

/** `waitFor` waits. */
export interface GetOptions extends CallOptions, Omit<GetTaskQuery, "wait"> {}

export interface EventsOptions extends CallOptions {
  /** The last received revision; without it, the stream starts at the first event. */
  readonly after?: number | undefined
  /** `turn` adds the text of the partial turn to progress events. */
  readonly include?: "turn" | undefined
}

export interface TextOptions extends CallOptions {
  /** Called when the text that follows is another one, not a continuation: forget the parts before. */
  readonly onReplaced?: (() => void) | undefined
}

export interface RunOptions extends CallOptions {
  /** Tools by name. A tool that `client_tools` does not define is added to it. */
  readonly tools?: Tools.Tools | undefined
  /**
   * Called with the task after its creation, and at each change of its status: `processing`, `interrupted`, and the end. A change that is
   * followed by another one within a moment may be missing.
   */
  readonly onUpdate?: ((task: Task) => void) | undefined
  /**
   * Called with the text of the answer as it is written, and before the end with all of it. `delta` is the added part;
   * undefined when the text does not continue the previous one.
   */
  readonly onText?: ((text: string, delta: string | undefined) => void) | undefined
}

/** Seconds of one long poll: shorter than the idle timeouts of common proxies. */
const waitSeconds = 25
/** Milliseconds between polls when the long poll is not held. */
const pollInterval = 1000
/** Milliseconds before a stream that ended early is opened again. */
const reconnectDelay = { first: 1000, maximum: 1000 }

// Not imported from the domain, whose schemas would enter the bundle.
const terminal: ReadonlySet<TaskStatus> = new Set(["completed", "failed", "canceled"])

export const isTerminal = (task: { readonly status: TaskStatus }): boolean => terminal.has(task.status)

const pathOf = (uuid: string, rest = "") => `/api/tasks/${encodeURIComponent(uuid)}${rest}`

/** A POST with an `Idempotency-Key`, so that a retry is safe. */
const idempotent = (path: string, body: unknown, options: CallOptions): Call => ({
  ...options,
  method: "POST",
  path,
  body: JSON.stringify(body),
  headers: {
    "content-type": "application/json",
    "idempotency-key": options.idempotencyKey ?? randomId()
  }
})

export class TasksResource {
  readonly #transport: Transport

  constructor(transport: Transport) {
    this.#transport = transport
  }

  create(body: CreateTask, options: CallOptions = {}): Promise<CreatedTask> {
    return this.#transport.json(idempotent("/api/tasks", body, options))
  }

  /** Creates a task with the request of another task. `overrides` replace fields of it; `null` removes an optional one. */
  rerun(uuid: string, overrides: RerunTask = {}, options: CallOptions = {}): Promise<CreatedTask> {
    return this.#transport.json(idempotent(pathOf(uuid, "/rerun"), overrides, options))
  }

  get(uuid: string, options: GetOptions = {}): Promise<Task> {
    const { options: given, query } = separate(options)
    return this.#transport.json({ ...given, method: "GET", path: pathOf(uuid, queryOf(query)) })
  }

  /** The caller's tasks, newest first. Await the result for one page, or use `for await` for all tasks. */
  list({ page: first = 1, ...options }: ListOptions = {}): TaskPages {
    const { options: given, query } = separate(options)
    const fetchPage = (page: number) => {
      const path = `/api/tasks${queryOf({ page, ...query })}`
      return this.#transport.json<TaskPageBody>({ ...given, method: "GET", path })
    }
    return new TaskPages(fetchPage, first)
  }

  submitToolResults(uuid: string, results: ReadonlyArray<ToolResult>, options: CallOptions = {}): Promise<ResumedTask> {
    return this.#transport.json(idempotent(pathOf(uuid, "/tool-results"), { results }, options))
  }

  /** Cancels an interrupted task. */
  cancel(
    uuid: string,
    { reason, ...options }: CallOptions & { readonly reason?: string } = {}
  ): Promise<CanceledTask> {
    return this.#transport.json(idempotent(pathOf(uuid, "/cancel"), reason === undefined ? {} : { reason }, options))
  }

  /** Cancels a task that has not ended, also while the core works on it: the work stops. */
  stop(uuid: string, { reason, ...options }: CallOptions & { readonly reason?: string } = {}): Promise<CanceledTask> {
    return this.#transport.json(idempotent(pathOf(uuid, "/stop"), reason === undefined ? {} : { reason }, options))
  }

  /** Deletes a task that has ended. Its pending webhooks are not sent. */
  delete(uuid: string, options: CallOptions = {}): Promise<void> {
    return this.#transport.send({ ...options, method: "DELETE", path: pathOf(uuid) })
  }

  /** Cancels all of the caller's interrupted tasks. */
  cancelInterrupted(options: CallOptions = {}): Promise<CanceledTasks> {
    return this.#transport.json({ ...options, method: "POST", path: "/api/tasks/cancel-interrupted" })
  }

  /** The webhook deliveries of the task with their attempts, oldest first. */
  async deliveries(uuid: string, options: CallOptions = {}): Promise<ReadonlyArray<Delivery>> {
    const path = pathOf(uuid, "/deliveries")
    const { data } = await this.#transport.json<{ data: ReadonlyArray<Delivery> }>({ ...options, method: "GET", path })
    return data
  }

  /** Sends a webhook again. The service deletes the secret after a successful delivery: pass it again to sign. */
  redeliver(
    uuid: string,
    deliveryId: string,
    { callback_secret, ...options }: CallOptions & { readonly callback_secret?: string } = {}
  ): Promise<Delivery> {
    return this.#transport.json({
      ...options,
      method: "POST",
      path: pathOf(uuid, `/deliveries/${encodeURIComponent(deliveryId)}/redeliver`),
      ...(callback_secret === undefined
        ? {}
        : { body: JSON.stringify({ callback_secret }), headers: { "content-type": "application/json" } })
    })
  }

  /** Waits until the task has ended or is interrupted. There is no time limit: use an `AbortSignal` to set one. */
  waitFor(uuid: string, options: CallOptions = {}): Promise<Task> {
    return this.#wait(uuid, null, options)
  }

  /** Waits until the task has ended or is interrupted; with the tag of a pending one also until it no longer is. */
  async #wait(uuid: string, pendingTag: string | null, options: CallOptions): Promise<Task> {
    const outage = new Outage(options.signal)
    const path = pathOf(uuid, `?wait=${waitSeconds}`)
    for (;;) {
      const startedAt = performance.now()
      try {
        const task = await this.#transport.json<Task>({
          ...options,
          method: "GET",
          path,
          heldFor: waitSeconds * 1000,
          headers: pendingTag === null ? {} : { "if-none-match": pendingTag }
        })
        if (isTerminal(task) || task.status === "interrupted") return task
        if (pendingTag !== null && task.status !== "pending") return task
        outage.end()
      } catch (error) {
        if (error instanceof ApiError && error.status === 304) outage.end()
        else await outage.pauseAfter(error)
      }
      const left = pollInterval - (performance.now() - startedAt)
      if (left > 0) await sleep(left, options.signal)
    }
  }

  /** Creates a task, executes its tool calls, and resolves when it has ended. Check `status`: it may have failed. */
  async run(body: CreateTask, { onText, ...options }: RunOptions = {}): Promise<Task> {
    const { uuid } = await this.create(Tools.declare(body, options.tools ?? {}), options)
    if (onText === undefined) return this.#runTools(uuid, options)
    const changeOf = textChanges()
    const report = (text: string | undefined) => {
      const change = changeOf(text)
      if (change !== undefined) onText(change.text, change.delta)
    }
    const ended = new AbortController()
    const end = () => ended.abort(options.signal?.reason)
    options.signal?.addEventListener("abort", end)
    const later = { ...options, signal: ended.signal }
    const following = this.#followText(uuid, report, later)
    // Rejects when the callback throws.
    const failed = following.then(() => new Promise<never>(() => {}))
    const reportRest = async (task: Task) => {
      end()
      await following
      report(outputText(task))
    }
    return Promise.race([this.#runTools(uuid, later, reportRest), failed]).finally(() => {
      options.signal?.removeEventListener("abort", end)
      end()
    })
  }

  /** Reports partial texts until the task has ended. Errors of the connection are those of the run too. */
  async #followText(uuid: string, report: (text: string | undefined) => void, options: CallOptions): Promise<void> {
    const live = new LiveText()
    const events = this.#follow(uuid, "?include=text", "", options)
    for (;;) {
      const next = await events.next().catch(() => undefined)
      if (next === undefined || next.done === true) return
      if (next.value.event !== "text") continue
      live.take(next.value.data)
      report(live.text)
    }
  }

  async #runTools(
    uuid: string,
    { onUpdate, tools = {}, ...options }: RunOptions,
    onEnd: (task: Task) => Promise<void> = async () => {}
  ): Promise<Task> {
    // The caller's idempotency key belongs to the create request alone.
    const later = { ...options, idempotencyKey: undefined }
    let tag: string | null = null
    let task: Task
    if (onUpdate === undefined) task = await this.waitFor(uuid, later)
    else ({ body: task, tag } = await this.#transport.tagged<Task>({ ...later, method: "GET", path: pathOf(uuid) }))
    for (;;) {
      if (isTerminal(task)) await onEnd(task)
      onUpdate?.(task)
      if (isTerminal(task)) return task
      if (task.status === "interrupted") {
        const results = await Tools.execute(task, tools, later.signal)
        const isTaken = await this.submitToolResults(uuid, results, later).then(() => true, (error: unknown) => {
          // The task is no longer interrupted: it timed out, or another client resumed or canceled it.
          if (error instanceof ConflictError) return false
          throw error
        })
        const { pending_tool_calls: _, ...answered } = task
        if (isTaken) onUpdate?.({ ...answered, status: "processing" })
      }
      task = await this.#wait(uuid, task.status === "pending" ? tag : null, later)
    }
  }

  /** The events of the task. Reconnects when the stream breaks and ends after the final event. */
  async *events(
    uuid: string,
    { after = -1, include, ...options }: EventsOptions = {}
  ): AsyncGenerator<TaskEvent, void, undefined> {
    const query = include === undefined ? "" : `?include=${include}`
    for await (const { data, event } of this.#follow(uuid, query, after < 0 ? "" : String(after), options)) {
      yield { ...data, event }
    }
  }

  /**
   * The text of the answer as it is written, part by part, until the task has ended. Reconnects when the stream breaks, and repeats no
   * character. A signal ends the reading, not the task: see `stop`.
   */
  async *text(uuid: string, { onReplaced, ...options }: TextOptions = {}): AsyncGenerator<string, void, undefined> {
    const live = new LiveText()
    for await (const { data, event } of this.#follow(uuid, "?include=text", "", options)) {
      if (event !== "text") continue
      const { added, isOther } = live.take(data)
      if (isOther) onReplaced?.()
      if (added !== "") yield added
    }
  }

  /** The events of the stream after `after`, the id of one. */
  async *#follow(
    uuid: string,
    query: string,
    after: string,
    options: CallOptions
    // oxlint-disable-next-line typescript/no-explicit-any -- the data of any event
  ): AsyncGenerator<{ readonly event: any; readonly data: any }, void, undefined> {
    const outage = new Outage(options.signal)
    let last = after
    for (;;) {
      try {
        const { allow, close, response } = await this.#transport.open({
          ...options,
          method: "GET",
          path: pathOf(uuid, `/events${query}`),
          headers: { accept: "text/event-stream", ...(last === "" ? {} : { "last-event-id": last }) }
        })
        try {
          if (response.status === 204 || response.body === null) return
          for await (const { data, event, id } of EventStream.read(response.body, allow)) {
            const received = JSON.parse(data)
            outage.end()
            last = id
            yield { event, data: received }
            if (event !== "text" && isTerminal(received)) return
          }
        } finally {
          close()
        }
      } catch (error) {
        await outage.pauseAfter(error)
        continue
      }
      await sleep(backoff(0, reconnectDelay), options.signal)
    }
  }
}
