/** The clocks of a live task and the event that each raises when it runs out. */
import type { Duration } from "effect"
import * as Failure from "./Failure.ts"
import { isTerminal, TaskEvent, type TaskHead } from "./Task.ts"
import type { Timestamp } from "./Timestamp.ts"

export interface Due {
  readonly at: Timestamp
  readonly event: TaskEvent
}

/** The first clock to run out: acceptance while pending (SPEC 30 s), the time limit always. */
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
