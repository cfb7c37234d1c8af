/** The deadlines of a live task, and the event that each one raises when it passes. */
import type { Duration } from "effect"
import * as Failure from "./Failure.ts"
import { isTerminal, TaskEvent, type TaskHead } from "./Task.ts"
import type { Timestamp } from "./Timestamp.ts"

export interface Due {
  readonly at: Timestamp
  readonly event: TaskEvent
}

/**
 * The deadline that passes first, with its event. A pending task that was sent to the core has an acceptance deadline;
 * every live task has a time limit. Terminal tasks have neither.
 */
export const nextDue = (head: TaskHead, acceptanceTimeout: Duration.Duration): Due | undefined => {
  if (isTerminal(head.status)) return undefined
  const limit: Due = {
    at: head.deadline,
    event: TaskEvent.cases.TimeLimitExceeded.make({ error: Failure.timeLimitExceeded(head.maxExecutionTime) })
  }
  if (head.status !== "pending" || head.acceptanceDeadline === null || head.acceptanceDeadline > head.deadline) {
    return limit
  }
  return {
    at: head.acceptanceDeadline,
    event: TaskEvent.cases.AcceptanceExpired.make({ error: Failure.notAccepted(acceptanceTimeout) })
  }
}
