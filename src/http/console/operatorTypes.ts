/** What the calls of operators return. A test compares the types with the schemas of the service. */
import type {
  Delivery as OwnDelivery,
  TaskEvent,
  TaskStatus,
  ToolCall,
  Turn,
  WaitingOn
} from "../client/promise/Types.ts"

interface Page<Row> {
  readonly data: ReadonlyArray<Row>
  readonly next: string | null
  readonly complete: boolean
}

export interface Task {
  readonly uuid: string
  readonly sub: string
  readonly assistant_id: number | null
  readonly assistant_name: string | null
  readonly status: TaskStatus
  readonly error: string | null
  readonly created_at: string
  readonly completed_at: string | null
  readonly deadline_at: string
  readonly acceptance_deadline_at: string | null
  readonly callback_origin: string | null
  readonly pending_tools: ReadonlyArray<string>
}
export type Tasks = Page<Task>

export interface Delivery extends OwnDelivery {
  readonly task_uuid: string
  readonly origin: string
}
export type Deliveries = Page<Delivery>

export interface TaskDetail extends Task {
  readonly run_id: string
  readonly revision: number
  readonly shard: number
  readonly owner: string | null
  readonly waiting_on: WaitingOn | null
  readonly bytes: { readonly request: number | null; readonly turn: number | null }
  readonly events: ReadonlyArray<
    Pick<TaskEvent, "uuid" | "revision" | "status" | "occurred_at"> & {
      readonly type: string
      readonly actor: string | null
    }
  >
  readonly ended_by: {
    readonly by: string
    readonly name: string | null
    readonly bulk_id: string | null
    readonly at: string
  } | null
  readonly deliveries: ReadonlyArray<Delivery>
}

export interface Content {
  readonly turn: Turn | null
  readonly pending_tool_calls: ReadonlyArray<ToolCall>
}

export interface Overview {
  readonly at: string
  readonly live: { readonly pending: number; readonly processing: number; readonly interrupted: number }
  readonly next_deadline: string | null
  readonly overdue_ms: number
  readonly last_hour: {
    readonly created: number
    readonly completed: number
    readonly failed: number
    readonly canceled: number
  }
  readonly deliveries: { readonly pending: number; readonly failed: number }
  readonly queue: {
    readonly running: number
    readonly waiting: number
    readonly oldest_waiting_since: string | null
    readonly core_busy_since: string | null
  }
  readonly nodes: number
  readonly node_starts: ReadonlyArray<string>
  readonly operators: ReadonlyArray<{ readonly name: string; readonly role: "full" | "read" }>
  readonly unowned: number
  readonly largest_users: ReadonlyArray<{
    readonly sub: string
    readonly bytes: number
    readonly tasks: number
    readonly counted_at: string
  }>
  readonly alerts: ReadonlyArray<{ readonly id: string; readonly message: string }>
}

export interface Errors {
  readonly window: { readonly failures: number; readonly complete: boolean }
  readonly groups: ReadonlyArray<{
    readonly fingerprint: string
    readonly error: string
    readonly users: number
    readonly assistants: number
    readonly count: number
    readonly first_at: string
    readonly last_at: string
    readonly counts: ReadonlyArray<number>
    readonly samples: ReadonlyArray<string>
  }>
}

interface Percentiles {
  readonly p50: number
  readonly p95: number
}

export interface Durations {
  readonly data: ReadonlyArray<{
    readonly assistant_id: number | null
    readonly name: string | null
    readonly tasks: number
    readonly waiting_ms: Percentiles
    readonly running_ms: Percentiles
  }>
  readonly complete: boolean
}

export interface Stuck {
  readonly data: ReadonlyArray<{
    readonly uuid: string
    readonly sub: string
    readonly status: TaskStatus
    readonly created_at: string
    readonly progress_at: string
    readonly idle_ms: number
    readonly waiting_on: WaitingOn | null
  }>
  readonly total: number
  readonly before: string
  readonly core_unreachable: { readonly since: string; readonly reason: string } | null
  readonly complete: boolean
}

export interface Clocks {
  readonly tasks: ReadonlyArray<{
    readonly uuid: string
    readonly sub: string
    readonly status: TaskStatus
    readonly clock: "acceptance" | "time_limit"
    readonly due_at: string
    readonly late_ms: number
  }>
  readonly stops: ReadonlyArray<{
    readonly run_id: string
    readonly task_uuid: string
    readonly reason: string
    readonly attempts: number
    readonly due_at: string
    readonly late_ms: number
  }>
}

export interface History {
  readonly step: number
  readonly from: string
  readonly series: Readonly<Record<string, ReadonlyArray<number>>>
}

export interface Origins {
  readonly data: ReadonlyArray<{
    readonly origin: string
    readonly pending: number
    readonly failed: number
    readonly last_error: string | null
    readonly oldest_failed_at: string | null
  }>
  readonly complete: boolean
}

export interface Redelivered {
  readonly matched: number
  readonly owed: number
  readonly needs_secret: number
  readonly left: number
}

interface QueueNumbers {
  readonly running: number
  readonly waiting: number
  readonly oldest_waiting_since: string | null
}

export interface Queue extends QueueNumbers {
  readonly runs: number | null
  readonly runs_per_assistant: number | null
  readonly core_busy_since: string | null
  readonly core_unreachable: Stuck["core_unreachable"]
  readonly assistants: ReadonlyArray<
    QueueNumbers & {
      readonly assistant_id: number
      readonly name: string | null
      readonly runs: number | null
      readonly paused: boolean
    }
  >
}

export interface Cluster {
  readonly members: ReadonlyArray<{
    readonly instance: string
    readonly address: string
    readonly version: string
    readonly is_self: boolean
    readonly started_at: string
    readonly seen_at: string
    readonly drained: boolean
    readonly shards: ReadonlyArray<number> | null
    readonly tasks: number
    readonly next_due: string | null
    readonly lateness_ms: number
  }>
  readonly shards: number
  readonly unowned: ReadonlyArray<number>
}

export type Revocations = Page<{
  readonly jti: string | null
  readonly token_hash: string | null
  readonly sub: string | null
  readonly issued_before: string | null
  readonly expires_at: string | null
  readonly revoked_at: string
}>

export interface StartedBulk {
  readonly id: string
  readonly matched: number
}

export interface DryRun {
  readonly matched: number
  readonly sample: ReadonlyArray<Task | Delivery>
}

export interface Bulk {
  readonly id: string
  readonly action: "cancel" | "rerun" | "redeliver" | "delete" | "erase"
  readonly filter: Readonly<Record<string, unknown>>
  readonly by: string
  readonly reason: string | null
  readonly rate: number
  readonly started_at: string
  readonly ended_at: string | null
  readonly state: "running" | "done" | "stopped"
  readonly matched: number
  readonly done: number
  readonly skipped: number
  readonly failed: number
  readonly errors: ReadonlyArray<{ readonly id: string; readonly message: string }>
  readonly files?: ReadonlyArray<string>
}

export interface BulkList {
  readonly data: ReadonlyArray<Bulk>
}

export interface Silences {
  readonly data: ReadonlyArray<{
    readonly kind: "cause" | "alert"
    readonly key: string
    readonly until: string
    readonly by: string
  }>
}

export type Audit = Page<{
  readonly id: string
  readonly at: string
  readonly operator: string
  readonly via: string
  readonly action: string
  readonly target: string | null
  readonly sub: string | null
  readonly reason: string | null
  readonly outcome: string
  readonly bulk_id: string | null
}>

export interface User {
  readonly sub: string
  readonly slots: { readonly used: number; readonly maximum: number }
  readonly limits: { readonly max_active_tasks: number | null }
  readonly running: number
  readonly waiting: number
  readonly interrupted: number
  readonly failures: number
  readonly stored_bytes: { readonly bytes: number; readonly tasks: number; readonly complete: boolean }
  readonly last_revocation: { readonly revoked_at: string; readonly issued_before: string } | null
  readonly schedules?: unknown
  readonly usage?: unknown
}

/** Actions that the audit is filtered by: those of every extension. */
export const auditActions = [
  "cancel",
  "withdraw",
  "content",
  "redeliver",
  "rerun",
  "delete",
  "drain",
  "take_in",
  "revoke",
  "bulk_cancel",
  "bulk_rerun",
  "bulk_redeliver",
  "bulk_delete",
  "bulk_stop",
  "limits",
  "queue",
  "silence",
  "export",
  "erase",
  "usage_erase",
  "endpoint_create",
  "endpoint_update",
  "endpoint_delete",
  "endpoint_rotate",
  "endpoint_test",
  "endpoint_redeliver",
  "endpoint_replay"
]
