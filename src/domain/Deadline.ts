/** The deadlines of a live task, and the event that each one raises when it passes. */
import type { Duration } from "effect"
import * as Failure from "./Failure.ts"
import { isTerminal, TaskEvent, type TaskHead } from "./Task.ts"
import type { Timestamp } from "./Timestamp.ts"

/** The fields of a task that decide its next deadline. */
export type Deadlines = Pick<TaskHead, "status" | "deadline" | "acceptanceDeadline">

export interface Due {
  readonly at: Timestamp
  /** Made when the deadline has passed: few tasks need it, and every change of a task computes its next deadline. */
  readonly event: () => TaskEvent
}

/**
 * The deadline of a live task that passes first. A pending task that was sent to the core has an acceptance deadline; every live
 * task has a time limit.
 */
export const dueAt = ({ acceptanceDeadline, deadline, status }: Deadlines): Timestamp =>
  status === "pending" && acceptanceDeadline !== null && acceptanceDeadline < deadline ? acceptanceDeadline : deadline

/** The deadline that passes first, with its event. Terminal tasks have none. */
export const nextDue = (head: TaskHead, acceptanceTimeout: Duration.Duration): Due | undefined => {
  if (isTerminal(head.status)) return undefined
  const at = dueAt(head)
  return head.status === "pending" && at === head.acceptanceDeadline
    ? { at, event: () => TaskEvent.cases.AcceptanceExpired.make({ error: Failure.notAccepted(acceptanceTimeout) }) }
    : {
      at,
      event: () => TaskEvent.cases.TimeLimitExceeded.make({ error: Failure.timeLimitExceeded(head.maxExecutionTime) })
    }
}
