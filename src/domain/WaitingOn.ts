/** The party that has to act next on a task, and its deadline. Shown with `?include=waiting_on`. */
import type { TaskHead } from "./Task.ts"
import type { Timestamp } from "./Timestamp.ts"

export interface WaitingOn {
  readonly party: "core" | "client"
  readonly for: "acceptance" | "result" | "tool_results"
  /** The task fails at this moment unless the party acts. */
  readonly until: Timestamp
}

/** Null for a task that has ended. */
export const waitingOn = (
  { acceptanceDeadline, deadline, status }: Pick<TaskHead, "status" | "deadline" | "acceptanceDeadline">
): WaitingOn | null => {
  switch (status) {
    case "pending": {
      const until = acceptanceDeadline !== null && acceptanceDeadline < deadline ? acceptanceDeadline : deadline
      return { party: "core", for: "acceptance", until }
    }
    case "processing":
      return { party: "core", for: "result", until: deadline }
    case "interrupted":
      return { party: "client", for: "tool_results", until: deadline }
    default:
      return null
  }
}
