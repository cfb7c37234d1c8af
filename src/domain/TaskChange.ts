/** The fields that an event writes into a task, the same for every store. `Task.transitions` decides whether it may. */
import * as Failure from "./Failure.ts"
import type { OpaqueJson } from "./json/OpaqueJson.ts"
import type { Principal } from "./Principal.ts"
import { isTerminal, type RunId, stopReasonOf, targetOf, type TaskEvent, type TaskStatus } from "./Task.ts"

export interface TaskChange {
  readonly status: TaskStatus
  readonly isTerminal: boolean
  readonly error: string | null
  readonly pendingToolCalls: OpaqueJson | null
  /** The new turn; null keeps the present one, so that partial output survives. */
  readonly turn: OpaqueJson | null
  /** JSON that an extension reads from the turn. */
  readonly report: string | null
  /** The core's state, sent back on resume; undefined keeps the present one. */
  readonly coreState: OpaqueJson | null | undefined
  /** The run that begins; undefined when the event begins none. */
  readonly run:
    | {
      readonly runId: RunId
      readonly results: OpaqueJson
      readonly principal: Principal
      readonly userToken: string
    }
    | undefined
  /** The reason of the stop request to the core; undefined when none is sent. */
  readonly stopReason: string | undefined
  /** The author of the change, unless it was the core: a short text of the caller. */
  readonly author: string | null
}

/** The user is the one who cancels, unless the caller says otherwise. */
const userAuthor = "user"

const authorOf = (event: TaskEvent): string | null => {
  switch (event._tag) {
    case "Canceled":
    case "Withdrawn":
      return event.author ?? userAuthor
    case "ToolResultsSubmitted":
      return userAuthor
    case "AcceptanceExpired":
      return "acceptance_timeout"
    case "TimeLimitExceeded":
      return "time_limit"
    case "TokenRevoked":
      return "revocation"
    default:
      return null
  }
}

const errorOf = (event: TaskEvent): string | null => {
  switch (event._tag) {
    case "Failed":
    case "Refused":
    case "AcceptanceExpired":
    case "TimeLimitExceeded":
      return event.error
    case "TokenRevoked":
      return Failure.tokenRevoked
    case "Canceled":
    case "Withdrawn":
      return event.reason
    default:
      return null
  }
}

export const changeOf = (event: TaskEvent): TaskChange => {
  const status = targetOf(event._tag)
  return {
    status,
    isTerminal: isTerminal(status),
    error: errorOf(event),
    pendingToolCalls: event._tag === "Interrupted" ? event.toolCalls : null,
    turn: "turn" in event ? event.turn : null,
    report: "report" in event ? event.report ?? null : null,
    coreState: event._tag === "Interrupted" ? event.state : undefined,
    run: event._tag === "ToolResultsSubmitted"
      ? {
        runId: event.runId,
        results: event.results,
        principal: event.principal,
        userToken: event.userToken
      }
      : undefined,
    stopReason: stopReasonOf(event._tag),
    author: authorOf(event)
  }
}
