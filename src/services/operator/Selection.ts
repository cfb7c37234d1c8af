/** The filter of a search of operators, or of a bulk action, whose row has it as JSON. */
import { activeStatuses, type TaskId, type TaskStatus } from "../../domain/Task.ts"
import type { Timestamp } from "../../domain/Timestamp.ts"
import type { DeliveryState } from "../../domain/Webhook.ts"

export interface TaskSelection {
  readonly of: "tasks"
  readonly sub: string | null
  readonly status: TaskStatus | null
  readonly assistant: number | null
  /** A part of the error; only with the status failed. */
  readonly error: string | null
  /** See `ErrorFingerprint`; only with the status failed. */
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
  readonly state: DeliveryState | null
  /** Error of the last attempt. */
  readonly error: string | null
  readonly from: Timestamp | null
  readonly to: Timestamp
  readonly ids: ReadonlyArray<string> | null
}

export type Selection = TaskSelection | DeliverySelection

export const allTasks = {
  of: "tasks",
  sub: null,
  status: null,
  assistant: null,
  error: null,
  fingerprint: null,
  text: null,
  labels: null,
  from: null,
  ids: null,
  which: "all"
} as const satisfies Omit<TaskSelection, "to">

export const allDeliveries = {
  of: "deliveries",
  sub: null,
  status: null,
  origin: null,
  state: null,
  error: null,
  from: null,
  ids: null
} as const satisfies Omit<DeliverySelection, "to">

/** Live tasks by id, which is their creation; failed ones of all users by their end; others by creation. Newest first. */
export const orderOf = (
  { ids, status, sub, which }: Pick<TaskSelection, "ids" | "status" | "sub" | "which">
): "live" | "failed" | "created" => {
  if (sub !== null || ids !== null) return "created"
  if (which === "live" || (status !== null && activeStatuses.includes(status))) return "live"
  return status === "failed" ? "failed" : "created"
}
