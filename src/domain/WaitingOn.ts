/** The party that has to act next on a task, and its deadline. Shown with `?include=waiting_on`. */
import { type Deadlines, dueAt } from "./Deadline.ts"
import { isRunning, type TaskHead } from "./Task.ts"
import type { Timestamp } from "./Timestamp.ts"

/** Places in the queue are counted up to this: it means at least so many. */
export const maxPosition = 1000

export interface WaitingOn {
  readonly party: "core" | "client" | "queue"
  readonly for: "acceptance" | "result" | "tool_results" | "room"
  /** Only of the queue: the place of the run, 1 for the next one. An estimate, up to `maxPosition`. */
  readonly position?: number
  /** The task fails at this moment unless the party acts. */
  readonly until: Timestamp
  /** Only of a silent run that was handed to the core again: its last sign of life, and how often. */
  readonly silence?: { readonly since: Timestamp; readonly redispatches: number }
}

type Waiting = Deadlines & Pick<TaskHead, "lastEventAt" | "redispatches" | "room">

/** Whether the run of a task waits until the core has room. */
export const isQueued = ({ room, status }: Pick<TaskHead, "status" | "room">): boolean =>
  room === "waiting" && isRunning(status)

/** Null for a task that has ended. A run without a place has just left the queue, or is the next to do so. */
export const waitingOn = (task: Waiting, position = 1): WaitingOn | null => {
  const until = dueAt(task)
  if (isQueued(task)) return { party: "queue", for: "room", position, until }
  switch (task.status) {
    case "pending":
      return { party: "core", for: "acceptance", until }
    case "processing":
      return {
        party: "core",
        for: "result",
        until,
        ...(task.lastEventAt === null || task.redispatches === null
          ? {}
          : { silence: { since: task.lastEventAt, redispatches: task.redispatches } })
      }
    case "interrupted":
      return { party: "client", for: "tool_results", until }
    case "completed":
    case "failed":
    case "canceled":
      return null
  }
}

/** The place of a run in the queue, in words for clients. */
export const describeQueued = (position = 1): string => {
  if (position <= 1) return "Queued, next"
  return `Queued, ${position >= maxPosition ? "at least " : ""}${position - 1} before it`
}
