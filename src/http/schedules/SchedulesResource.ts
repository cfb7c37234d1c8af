/** `client.schedules`: tasks at the moments of a rhythm, or once later. */
import type { PageOf } from "../client/promise/TaskPages.ts"
import {
  type Call,
  type CallOptions,
  queryOf,
  randomId,
  separate,
  type Transport
} from "../client/promise/Transport.ts"
import type {
  CreatedTask,
  CreateSchedule,
  ListScheduleRunsQuery,
  ListSchedulesQuery,
  PreviewSchedule,
  Schedule,
  ScheduleRun,
  UpdateSchedule
} from "../client/promise/Types.ts"

export interface ListSchedulesOptions extends CallOptions, ListSchedulesQuery {}

export interface ListScheduleRunsOptions extends CallOptions, ListScheduleRunsQuery {}

const base = "/api/schedules"

const pathOf = (id: string, rest = "") => `${base}/${encodeURIComponent(id)}${rest}`

export class SchedulesResource {
  readonly #transport: Transport

  constructor(transport: Transport) {
    this.#transport = transport
  }

  create(body: CreateSchedule, options: CallOptions = {}): Promise<Schedule> {
    return this.#send("POST", base, body, options, { "idempotency-key": options.idempotencyKey ?? randomId() })
  }

  /** Creates the schedule with a key or replaces it. An equal definition changes nothing. */
  put(key: string, body: CreateSchedule, options: CallOptions = {}): Promise<Schedule> {
    return this.#send("PUT", `${base}/by-key/${encodeURIComponent(key)}`, body, options)
  }

  /** One page of the caller's schedules, newest first. */
  list(options: ListSchedulesOptions = {}): Promise<PageOf<Schedule>> {
    const { options: given, query } = separate(options)
    return this.#get(base + queryOf(query), given)
  }

  get(id: string, options: CallOptions = {}): Promise<Schedule> {
    return this.#get(pathOf(id), options)
  }

  /** Changes the given fields; `null` resets an optional one. */
  update(id: string, body: UpdateSchedule, options: CallOptions = {}): Promise<Schedule> {
    return this.#send("PATCH", pathOf(id), body, options)
  }

  /** Its tasks stay. */
  delete(id: string, options: CallOptions = {}): Promise<void> {
    return this.#transport.send({ ...options, method: "DELETE", path: pathOf(id) })
  }

  pause(id: string, reason?: string, options: CallOptions = {}): Promise<Schedule> {
    return this.#send("POST", pathOf(id, "/pause"), { reason }, options)
  }

  resume(id: string, options: CallOptions = {}): Promise<Schedule> {
    return this.#send("POST", pathOf(id, "/resume"), {}, options)
  }

  /** Creates a task of the schedule now. */
  trigger(id: string, options: CallOptions = {}): Promise<CreatedTask> {
    const headers = { "idempotency-key": options.idempotencyKey ?? randomId() }
    return this.#send("POST", pathOf(id, "/trigger"), {}, options, headers)
  }

  /** The outcomes of the moments, newest first. */
  runs(id: string, options: ListScheduleRunsOptions = {}): Promise<PageOf<ScheduleRun>> {
    const { options: given, query } = separate(options)
    return this.#get(pathOf(id, `/runs${queryOf(query)}`), given)
  }

  /** The next moments of a rhythm. */
  async preview(body: PreviewSchedule, options: CallOptions = {}): Promise<ReadonlyArray<string>> {
    const { data } = await this.#send<{ readonly data: ReadonlyArray<string> }>(
      "POST",
      `${base}/preview`,
      body,
      options
    )
    return data
  }

  #get<A>(path: string, options: CallOptions): Promise<A> {
    return this.#transport.json({ ...options, method: "GET", path })
  }

  #send<A>(
    method: Call["method"],
    path: string,
    body: unknown,
    options: CallOptions,
    headers: Readonly<Record<string, string>> = {}
  ): Promise<A> {
    return this.#transport.json({
      ...options,
      method,
      path,
      body: JSON.stringify(body),
      headers: { "content-type": "application/json", ...headers }
    })
  }
}
