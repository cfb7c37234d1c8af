/** `client.schedules`: tasks at the moments of a rhythm, or once later. */
import { type Call, type CallOptions, randomId, type Transport } from "./Transport.ts"
import type { CreatedTask, CreateTask, TaskPageBody } from "./Types.ts"

export type ScheduleState = "active" | "paused" | "ended"

interface Timing {
  readonly key?: string | null | undefined
  readonly name?: string | null | undefined
  /** Five fields, for the type `cron`. */
  readonly cron?: string | null | undefined
  /** An IANA time zone; UTC by default. */
  readonly timezone?: string | null | undefined
  /** ISO 8601, for the type `once`. */
  readonly run_at?: string | null | undefined
  /** Seconds from now, for the type `once`. */
  readonly delay?: number | null | undefined
  readonly starts_at?: string | null | undefined
  readonly ends_at?: string | null | undefined
  /** Seconds. */
  readonly spread?: number | null | undefined
  readonly overlap?: "skip" | "queue" | "allow" | null | undefined
  /** Seconds. */
  readonly catchup_window?: number | null | undefined
  readonly pause_after_failures?: number | null | undefined
}

export interface CreateSchedule extends Timing {
  readonly type: "cron" | "once"
  readonly task: CreateTask
}

export interface UpdateSchedule extends Timing {
  readonly type?: "cron" | "once" | undefined
  /** Replaces the whole task. */
  readonly task?: CreateTask | undefined
}

export interface Schedule {
  readonly id: string
  readonly key: string | null
  readonly name: string | null
  readonly type: "cron" | "once"
  readonly cron: string | null
  readonly timezone: string
  readonly run_at: string | null
  readonly delay: number | null
  readonly starts_at: string | null
  readonly ends_at: string | null
  readonly spread: number
  readonly overlap: "skip" | "queue" | "allow"
  readonly catchup_window: number
  readonly pause_after_failures: number | null
  /** Without its `callback_secret`. */
  readonly task: CreateTask
  readonly state: ScheduleState
  readonly paused_reason: {
    readonly type: "manual" | "failures" | "token" | "revoked"
    readonly message: string
  } | null
  readonly next_at: string | null
  readonly last_at: string | null
  readonly revision: number
  readonly created_at: string
  /** The next moments; not in lists. */
  readonly upcoming?: ReadonlyArray<string>
}

export interface ScheduleRun {
  readonly scheduled_for: string
  readonly started_at: string | null
  readonly outcome: "due" | "waiting" | "created" | "skipped_overlap" | "missed" | "failed"
  readonly count: number
  readonly task_uuid: string | null
  readonly error: string | null
}

/** One page of a list. */
export interface PageOf<Row> {
  readonly data: ReadonlyArray<Row>
  readonly meta: TaskPageBody["meta"]
}

export interface PageOptions extends CallOptions {
  /** First page is 1. */
  readonly page?: number | undefined
  /** 1 to 100; 25 by default. */
  readonly per_page?: number | undefined
}

export interface ListSchedulesOptions extends PageOptions {
  readonly state?: ScheduleState | ReadonlyArray<ScheduleState> | undefined
}

export interface PreviewSchedule {
  readonly cron: string
  readonly timezone?: string | undefined
  /** 1 to 20. */
  readonly count?: number | undefined
  /** ISO 8601; now by default. */
  readonly after?: string | undefined
}

const base = "/api/schedules"

const pathOf = (id: string, rest = "") => `${base}/${encodeURIComponent(id)}${rest}`

const queryOf = (fields: Readonly<Record<string, string | number | undefined>>) => {
  const given = Object.entries(fields).flatMap(([name, value]) => value === undefined ? [] : [[name, String(value)]])
  return given.length === 0 ? "" : `?${new URLSearchParams(given)}`
}

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
  list({ page, per_page, state, ...options }: ListSchedulesOptions = {}): Promise<PageOf<Schedule>> {
    const states = typeof state === "object" ? state.join(",") : state
    return this.#get(base + queryOf({ state: states, page, per_page }), options)
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
  runs(id: string, { page, per_page, ...options }: PageOptions = {}): Promise<PageOf<ScheduleRun>> {
    return this.#get(pathOf(id, `/runs${queryOf({ page, per_page })}`), options)
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
