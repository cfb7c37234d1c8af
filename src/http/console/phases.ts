/** The phases of a task: how long it was in each status, from its events. */
import type { TaskEvent, TaskStatus } from "../client/promise/Types.ts"

export interface Phase {
  readonly status: TaskStatus
  /** Milliseconds since the epoch. */
  readonly from: number
  readonly to: number
}

const isEnd = (status: TaskStatus) => status === "completed" || status === "failed" || status === "canceled"

/** Oldest first. The last phase of a live task lasts until now. */
export const phasesOf = (events: ReadonlyArray<TaskEvent>, now: number): ReadonlyArray<Phase> => {
  const changes = events.filter(({ status }, index) => status !== events[index - 1]?.status)
  return changes.flatMap(({ occurred_at, status }, index): ReadonlyArray<Phase> => {
    if (isEnd(status)) return []
    const next = changes[index + 1]
    const from = Date.parse(occurred_at)
    return [{ status, from, to: Math.max(from, next === undefined ? now : Date.parse(next.occurred_at)) }]
  })
}
