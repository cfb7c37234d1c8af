/**
 * Observations of clients, core and webhook target about the tasks of one cell, and the invariants that they violate.
 * `Rows.ts` adds the checks of the database.
 */
import type { StartedRun } from "../kit/ScriptedCore.ts"

export const promises = [
  "lost",
  "stuck",
  "twice terminal",
  "wrong end",
  "over limit",
  "too many runs",
  "stale write",
  "delivery",
  "stop",
  "time limit",
  "node"
] as const
export type Promised = typeof promises[number]

/** Maximum lateness of a time limit in seconds, after the owner of the task was killed. */
const maxLateness = 15

/** The required end of a task. */
export interface Expectation {
  readonly status: "completed" | "failed" | "canceled"
  readonly error: string | null
}

// oxlint-disable-next-line typescript/no-explicit-any -- what came over the wire
export type TaskAnswer = any

export class Recorder {
  /** Acknowledged tasks, each with its required end. */
  readonly acknowledged = new Map<string, Expectation>()
  /** Bodies of the POSTs of each delivery, by `webhook-id`. */
  readonly posts = new Map<string, Array<string>>()
  /** The moment when the target first accepted a delivery, by `webhook-id`. */
  readonly taken = new Map<string, number>()
  readonly stopped = new Set<string>()
  /** Maximum lateness of a time limit, in seconds. */
  worstLateness = 0
  readonly #runs = new Map<string, Array<string>>()
  readonly #ends = new Map<string, string>()
  readonly #appliedEvents = new Set<string>()
  readonly #endsApplied = new Set<string>()
  readonly #broken = new Map<Promised, Map<string, string>>()

  /** Records a violation, counted once per subject. */
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

  /** Checks a task that a client read; returns whether the task has ended. */
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

  /** Checks an event that was applied. `wasSuperseded`: the core already had a newer run when it sent the event. */
  applied(run: StartedRun, event: { readonly event_id: string; readonly type: string }, wasSuperseded: boolean) {
    const { task_id } = run
    if (wasSuperseded) this.broke("stale write", task_id, `${event.type} of an older run was applied`)
    if (this.#appliedEvents.has(event.event_id)) this.broke("stale write", task_id, `${event.type} was applied twice`)
    this.#appliedEvents.add(event.event_id)
    if (event.type !== "completed" && event.type !== "failed") return
    if (this.#endsApplied.has(task_id)) this.broke("twice terminal", task_id, "two ends were applied")
    this.#endsApplied.add(task_id)
  }

  /** The moment when the target accepted the first delivery of a task. */
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
