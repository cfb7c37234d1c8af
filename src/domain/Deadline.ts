/** The deadlines of a live task, and the event that each one raises when it passes. */
import type { Duration } from "effect"
import * as Failure from "./Failure.ts"
import { isTerminal, TaskEvent, type TaskHead } from "./Task.ts"
import type { Timestamp } from "./Timestamp.ts"

export interface Due {
  readonly at: Timestamp
  /** Made when the deadline has passed: few tasks need it, and every change of a task computes its next deadline. */
  readonly event: () => TaskEvent
}

/**
 * The deadline that passes first, with its event. A pending task that was sent to the core has an acceptance deadline;
 * every live task has a time limit. Terminal tasks have neither.
 */
export const nextDue = (head: TaskHead, acceptanceTimeout: Duration.Duration): Due | undefined => {
  if (isTerminal(head.status)) return undefined
  const { acceptanceDeadline, deadline, maxExecutionTime } = head
  return head.status !== "pending" || acceptanceDeadline === null || acceptanceDeadline > deadline
    ? {
      at: deadline,
      event: () => TaskEvent.cases.TimeLimitExceeded.make({ error: Failure.timeLimitExceeded(maxExecutionTime) })
    }
    : {
      at: acceptanceDeadline,
      event: () => TaskEvent.cases.AcceptanceExpired.make({ error: Failure.notAccepted(acceptanceTimeout) })
    }
}
