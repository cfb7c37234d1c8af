/** The party that has to act next on a task, and its deadline. Shown with `?include=waiting_on`. */
import { type Deadlines, dueAt } from "./Deadline.ts"
import type { TaskHead } from "./Task.ts"
import type { Timestamp } from "./Timestamp.ts"

export interface WaitingOn {
  readonly party: "core" | "client"
  readonly for: "acceptance" | "result" | "tool_results"
  /** The task fails at this moment unless the party acts. */
  readonly until: Timestamp
  /** Only of a silent run that was handed to the core again: its last sign of life, and how often. */
  readonly silence?: { readonly since: Timestamp; readonly handOvers: number }
}

type Waiting = Deadlines & Pick<TaskHead, "lastEventAt" | "handOvers">

/** Null for a task that has ended. */
export const waitingOn = (task: Waiting): WaitingOn | null => {
  const until = dueAt(task)
  switch (task.status) {
    case "pending":
      return { party: "core", for: "acceptance", until }
    case "processing":
      return {
        party: "core",
        for: "result",
        until,
        ...(task.lastEventAt === null || task.handOvers === null
          ? {}
          : { silence: { since: task.lastEventAt, handOvers: task.handOvers } })
      }
    case "interrupted":
      return { party: "client", for: "tool_results", until }
    default:
      return null
  }
}
