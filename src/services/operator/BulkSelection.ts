/** What a bulk action is about. Its row has it as JSON. */
import type { TaskId, TaskStatus } from "../../domain/Task.ts"
import type { Timestamp } from "../../domain/Timestamp.ts"

/** Tasks that a bulk action may be about. */
export interface TaskSelection {
  readonly of: "tasks"
  readonly sub: string | null
  readonly status: TaskStatus | null
  readonly assistant: number | null
  readonly error: string | null
  readonly fingerprint: string | null
  /** A part of the id, the user, the metadata or the error. */
  readonly text: string | null
  readonly labels: Readonly<Record<string, string>> | null
  readonly from: Timestamp | null
  readonly to: Timestamp
  readonly ids: ReadonlyArray<TaskId> | null
  /** Those that have not ended, those that had ended at `to`, those of them whose request is kept, or all. */
  readonly which: "live" | "ended" | "kept" | "all"
}

export interface DeliverySelection {
  readonly of: "deliveries"
  readonly sub: string | null
  readonly status: TaskStatus | null
  readonly origin: string | null
  readonly error: string | null
  readonly from: Timestamp | null
  readonly to: Timestamp
  /** By id they are sent again in any state; else those that failed. */
  readonly ids: ReadonlyArray<string> | null
}

export type Selection = TaskSelection | DeliverySelection
