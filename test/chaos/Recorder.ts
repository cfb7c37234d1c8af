/**
 * What clients, core and webhook target saw of the tasks of one cell, and which promises of RELIABILITY were broken by it.
 * `Rows.ts` adds what the database tells.
 */
import type { StartedRun } from "../kit/ScriptedCore.ts"

export const promises = [
  "lost",
  "stuck",
  "twice terminal",
  "wrong end",
  "over limit",
  "stale write",
  "delivery",
  "stop",
  "time limit",
  "node"
] as const
export type Promised = typeof promises[number]

/** Seconds, after the kill of a task's owner. */
const maxLateness = 15

/** How a task has to end. */
export interface Expectation {
  readonly status: "completed" | "failed" | "canceled"
  readonly error: string | null
}

// oxlint-disable-next-line typescript/no-explicit-any -- what came over the wire
export type TaskAnswer = any

export class Recorder {
  /** Tasks that a client was told of, and how each has to end. */
  readonly acknowledged = new Map<string, Expectation>()
  /** Bodies of the POSTs of each delivery, by `webhook-id`. */
  readonly posts = new Map<string, Array<string>>()
  /** When the target took a delivery first, by `webhook-id`. */
  readonly taken = new Map<string, number>()
  readonly stopped = new Set<string>()
  /** Seconds by which the latest time limit came late. */
  worstLateness = 0
  readonly #runs = new Map<string, Array<string>>()
  readonly #ends = new Map<string, string>()
  readonly #appliedEvents = new Set<string>()
  readonly #endsApplied = new Set<string>()
  readonly #broken = new Map<Promised, Map<string, string>>()

  /** Counted once for each subject. */
  broke(promise: Promised, subject: string, detail: string) {
    const subjects = this.#broken.get(promise) ?? new Map<string, string>()
    this.#broken.set(promise, subjects)
    if (!subjects.has(subject)) subjects.set(subject, detail)
  }

  count(promise: Promised) {
    return this.#broken.get(promise)?.size ?? 0
  }

  get details(): ReadonlyArray<string> {
    return [...this.#broken].flatMap(([promise, subjects]) =>
      [...subjects].map(([subject, detail]) => `${promise}: ${subject}: ${detail}`)
    )
  }

  /** What a client was answered of a task; returns whether it has ended. */
  read(task: TaskAnswer): boolean {
    const { completed_at, created_at, error, status, uuid } = task
    const before = this.#ends.get(uuid)
    const text = JSON.stringify(task)
    if (before !== undefined && before !== text) this.broke("twice terminal", uuid, `${before} became ${text}`)
    if (completed_at === null) return false
    if (before !== undefined) return true
    this.#ends.set(uuid, text)
    const expected = this.acknowledged.get(uuid)
    if (expected?.status !== status || expected?.error !== error) {
      this.broke("wrong end", uuid, `${status} (${error}), not ${expected?.status} (${expected?.error})`)
    }
    const [, limit] = /maximum execution time \((\d+)s\)/.exec(error ?? "") ?? []
    if (limit !== undefined) {
      const lateness = (Date.parse(completed_at) - Date.parse(created_at)) / 1000 - Number(limit)
      this.worstLateness = Math.max(this.worstLateness, lateness)
      if (lateness < 0 || lateness > maxLateness) this.broke("time limit", uuid, `${lateness} s late`)
    }
    return true
  }

  offered({ run_id, task_id }: StartedRun) {
    const runs = this.#runs.get(task_id) ?? []
    this.#runs.set(task_id, runs)
    if (!runs.includes(run_id)) runs.push(run_id)
  }

  runsOf(taskId: string): ReadonlyArray<string> {
    return this.#runs.get(taskId) ?? []
  }

  /** The core was told that an event changed the task; `wasSuperseded` when it knew of a newer run as it sent the event. */
  applied(run: StartedRun, event: { readonly event_id: string; readonly type: string }, wasSuperseded: boolean) {
    const { task_id } = run
    if (wasSuperseded) this.broke("stale write", task_id, `${event.type} of an older run was applied`)
    if (this.#appliedEvents.has(event.event_id)) this.broke("stale write", task_id, `${event.type} was applied twice`)
    this.#appliedEvents.add(event.event_id)
    if (event.type !== "completed" && event.type !== "failed") return
    if (this.#endsApplied.has(task_id)) this.broke("twice terminal", task_id, "two ends were applied")
    this.#endsApplied.add(task_id)
  }

  /** When the first delivery of a task was taken. */
  takenOf(taskId: string) {
    for (const [id, at] of this.taken) if (id.startsWith(taskId)) return at
    return undefined
  }

  posted(id: string, body: string) {
    const posts = this.posts.get(id) ?? []
    this.posts.set(id, posts)
    posts.push(body)
  }
}
