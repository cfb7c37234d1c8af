/** Who or what ended a task, as the actor of its last event says (`TaskChange`). */
import { isTerminal } from "../../domain/Task.ts"
import type { Timestamp } from "../../domain/Timestamp.ts"
import type { RecordedEvent } from "../store/tasks/TaskReads.ts"

export interface EndedBy {
  /** `user`, `operator`, `rpc`, `core`, or what passed: `time_limit`, `acceptance_timeout`, `revocation`. */
  readonly by: string
  /** Of an operator, or of the token of a call. */
  readonly name: string | null
  readonly bulkId: string | null
  readonly at: Timestamp
}

/** Null while the task has not ended. */
export const of = (event: RecordedEvent | undefined): EndedBy | null => {
  if (event === undefined || !isTerminal(event.status)) return null
  const [, by = "core", name = null, bulkId = null] =
    /^([a-z_]+)(?::(.*?)(?: bulk:([0-9a-f-]{36}))?)?$/s.exec(event.actor ?? "core") ?? []
  return { by, name, bulkId, at: event.occurredAt }
}
