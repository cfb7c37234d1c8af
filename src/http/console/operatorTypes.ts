/** What the calls of operators return. Made from the service's description by `npm run docs`: do not edit. */
import type { DeliveryAttempt, Json, JsonObject, TaskStatus, ToolCall, Turn, WaitingOn } from "../client/promise/Types.ts"

/** The state of the service. */
export interface Overview {
  /** When this was read. */
  readonly at: string
  /** Live tasks by status. */
  readonly live: {
    /** Tasks that are pending. */
    readonly pending: number
    /** Tasks that are processing. */
    readonly processing: number
    /** Tasks that are interrupted. */
    readonly interrupted: number
  }
  /** The earliest deadline of a live task. */
  readonly next_deadline: string | null
  /** Milliseconds since that deadline passed; 0 while it has not. */
  readonly overdue_ms: number
  /** Changes of the last hour, about: a fault may count 10 s twice. */
  readonly last_hour: {
    /** Tasks created. */
    readonly created: number
    /** Tasks completed. */
    readonly completed: number
    /** Tasks failed. */
    readonly failed: number
    /** Tasks canceled. */
    readonly canceled: number
  }
  /** Webhooks. */
  readonly deliveries: {
    /** Webhooks with an attempt to come. */
    readonly pending: number
    /** Webhooks of the last hour that failed. */
    readonly failed: number
  }
  /** The queue. */
  readonly queue: {
    /** Runs that the core has. */
    readonly running: number
    /** Runs that wait for room. */
    readonly waiting: number
    /** Since when the oldest of them waits. */
    readonly oldest_waiting_since: string | null
    /** Since when the core says to the node that answers that it has no room; else null. */
    readonly core_busy_since: string | null
  }
  /** Nodes that report. */
  readonly nodes: number
  /** When each of them started, as after a deployment. */
  readonly node_starts: ReadonlyArray<string>
  /** Shards without an owner. */
  readonly unowned: number
  /** The ten users who keep the most, counted in the background. */
  readonly largest_users: ReadonlyArray<{
    /** The user. */
    readonly sub: string
    /** Bytes of requests and turns. */
    readonly bytes: number
    /** Tasks. */
    readonly tasks: number
    /** When they were counted. */
    readonly counted_at: string
  }>
  /** Owners of tokens, of `INTERNAL_TOKEN_NAMES` and `OPERATOR_READ_TOKEN_NAMES`. */
  readonly operators: ReadonlyArray<{
    /** The name of the token's owner. */
    readonly name: string
    /** `full` may change something, `read` may not. */
    readonly role: "full" | "read"
  }>
  /** Conditions that need attention now. */
  readonly alerts: ReadonlyArray<{
    /** The kind of alert. */
    readonly id: string
    /** The alert in words. */
    readonly message: string
  }>
}

/** A task of any user, without its content. */
export interface Task {
  /** Task identifier. */
  readonly uuid: string
  /** The user. */
  readonly sub: string
  /** The assistant; null for tasks of an early version. */
  readonly assistant_id: number | null
  /** Its name, if the backend has listed it to a user lately. */
  readonly assistant_name: string | null
  /** Status of the task. */
  readonly status: TaskStatus
  /** The error, cut after 500 characters. */
  readonly error: string | null
  /** Moment of creation. */
  readonly created_at: string
  /** Moment of the end. */
  readonly completed_at: string | null
  /** When the time limit passes. */
  readonly deadline_at: string
  /** When the acceptance deadline passes; null before the dispatch. */
  readonly acceptance_deadline_at: string | null
  /** Origin of the callback URL, whose path may carry secrets. */
  readonly callback_origin: string | null
  /** Names of the first pending client tools. */
  readonly pending_tools: ReadonlyArray<string>
}

/** One page of tasks. */
export interface Tasks {
  /** Newest first. */
  readonly data: ReadonlyArray<Task>
  /** The `cursor` of the next page; null when nothing follows. */
  readonly next: string | null
  /**
   * False when the search examined its maximum number of rows before the page was full: `next` continues behind them.
   */
  readonly complete: boolean
}

/** A webhook of any user, with its attempts. */
export interface Delivery {
  /** Delivery identifier, sent as `webhook-id`. */
  readonly id: string
  /** The task status that the webhook reports. */
  readonly status: TaskStatus
  /** State of the delivery. */
  readonly state: "pending" | "delivered" | "failed"
  readonly created_at: string
  /** Null when no further attempt is planned, and while one is in progress. */
  readonly next_attempt_at: string | null
  /** Oldest first. */
  readonly attempts: ReadonlyArray<DeliveryAttempt>
  /** The task. */
  readonly task_uuid: string
  /** Origin of the callback URL. */
  readonly origin: string
}

/** A task of any user with its history, without its content. */
export interface TaskDetail {
  /** Task identifier. */
  readonly uuid: string
  /** The user. */
  readonly sub: string
  /** The assistant; null for tasks of an early version. */
  readonly assistant_id: number | null
  /** Its name, if the backend has listed it to a user lately. */
  readonly assistant_name: string | null
  /** Status of the task. */
  readonly status: TaskStatus
  /** The error, cut after 500 characters. */
  readonly error: string | null
  /** Moment of creation. */
  readonly created_at: string
  /** Moment of the end. */
  readonly completed_at: string | null
  /** When the time limit passes. */
  readonly deadline_at: string
  /** When the acceptance deadline passes; null before the dispatch. */
  readonly acceptance_deadline_at: string | null
  /** Origin of the callback URL, whose path may carry secrets. */
  readonly callback_origin: string | null
  /** Names of the first pending client tools. */
  readonly pending_tools: ReadonlyArray<string>
  /** The current or last run. */
  readonly run_id: string
  /** Number of changes so far. */
  readonly revision: number
  /** Number of the task's shard. */
  readonly shard: number
  /** Address of the node that owns the shard; null while it moves. */
  readonly owner: string | null
  /** The party that has to act; null when the task has ended. */
  readonly waiting_on: WaitingOn | null
  /** Sizes of the stored texts. */
  readonly bytes: {
    /** Null when it is not stored. */
    readonly request: number | null
    /** Null without a turn. */
    readonly turn: number | null
  }
  /** The party or clock that ended the task; null while it has not ended. */
  readonly ended_by: {
    /** `user`, `operator`, `rpc`, `core`, `time_limit`, `acceptance_timeout` or `revocation`. */
    readonly by: string
    /** The name of the operator, or of the token of a call. */
    readonly name: string | null
    /** The bulk action that did it. */
    readonly bulk_id: string | null
    /** When. */
    readonly at: string
  } | null
  /** The newest 200 changes, oldest first. */
  readonly events: ReadonlyArray<{
    /** Task identifier. */
    readonly uuid: string
    /** Number of changes of the task so far; 0 is its creation. */
    readonly revision: number
    readonly status: TaskStatus
    readonly occurred_at: string
    /** The kind of event. */
    readonly type: string
    /** The actor that caused it, as in `operator:ana`; null for the core. */
    readonly actor: string | null
  }>
  /** The webhooks, oldest first. */
  readonly deliveries: ReadonlyArray<Delivery>
}

/** The content of the task. */
export interface Content {
  /** The turn, null without any. */
  readonly turn: Turn | null
  /** The pending calls with their arguments. */
  readonly pending_tool_calls: ReadonlyArray<ToolCall>
}

/** Failures grouped by their cause. */
export interface Errors {
  /** The failures that were examined. */
  readonly window: {
    /** Failures that were grouped: the newest 10,000 of the range at most. */
    readonly failures: number
    /** False when the range has more failures or groups. */
    readonly complete: boolean
  }
  /** The largest first. */
  readonly groups: ReadonlyArray<{
    /** The text that its errors have in common: `…` stands for ids, numbers, times and long quotes. */
    readonly fingerprint: string
    /** The newest error, cut after 500 characters. */
    readonly error: string
    /** Users whose tasks failed. */
    readonly users: number
    /** Assistants that they asked. */
    readonly assistants: number
    /** Its failures in the window. */
    readonly count: number
    /** The oldest of them. */
    readonly first_at: string
    /** The newest of them. */
    readonly last_at: string
    /** Failures in each of 24 equal parts of the range, the oldest first. */
    readonly counts: ReadonlyArray<number>
    /** The newest three tasks. */
    readonly samples: ReadonlyArray<string>
  }>
}

/** Tasks whose core has reported nothing for a while. */
export interface Stuck {
  /** Without progress for longest first. */
  readonly data: ReadonlyArray<{
    /** The task. */
    readonly uuid: string
    /** The user. */
    readonly sub: string
    /** Status of the task. */
    readonly status: TaskStatus
    /** Moment of creation. */
    readonly created_at: string
    /** The last sign of life of its run, or the creation. */
    readonly progress_at: string
    /** Milliseconds since then. */
    readonly idle_ms: number
    /** The party that has to act; null when the task has ended meanwhile. */
    readonly waiting_on: WaitingOn | null
  }>
  /** Stuck tasks, also those beyond `limit`. */
  readonly total: number
  /** Listed are runs of which nothing was heard since then. */
  readonly before: string
  /**
   * While the node that answers cannot reach the core: runs without a sign of life since then are listed immediately.
   * Otherwise null.
   */
  readonly core_unreachable: {
    /** The first call or connection without an answer. */
    readonly since: string
    /** Why the last one failed. */
    readonly reason: string
  } | null
  /** False when only the oldest 20,000 live tasks were examined. */
  readonly complete: boolean
}

/** Times for which tasks wait and run, by assistant. */
export interface Durations {
  /** Most tasks first, 100 at most. */
  readonly data: ReadonlyArray<{
    /** The assistant; null for tasks of an early version. */
    readonly assistant_id: number | null
    /** Its name, where the assistant backend lists it. */
    readonly name: string | null
    /** Its tasks that completed or failed. */
    readonly tasks: number
    /** Milliseconds from the creation to the first report of the core. */
    readonly waiting_ms: {
      /** Half of them took no longer. */
      readonly p50: number
      /** 19 of 20 took no longer. */
      readonly p95: number
    }
    /** Milliseconds from there to the end, interruptions included. */
    readonly running_ms: {
      /** Half of them took no longer. */
      readonly p50: number
      /** 19 of 20 took no longer. */
      readonly p95: number
    }
  }>
  /** False when only the newest 5,000 tasks of the range were measured. */
  readonly complete: boolean
}

/** Deadlines and stops that are due next. */
export interface Clocks {
  /** The next deadlines of live tasks, earliest first. */
  readonly tasks: ReadonlyArray<{
    /** The task. */
    readonly uuid: string
    /** The user. */
    readonly sub: string
    /** Status of the task. */
    readonly status: TaskStatus
    /** Which deadline. */
    readonly clock: "acceptance" | "time_limit"
    /** When it passes. */
    readonly due_at: string
    /** Milliseconds since it passed. */
    readonly late_ms: number
  }>
  /** Stop requests that the core has not confirmed, earliest first. */
  readonly stops: ReadonlyArray<{
    /** The run to stop. */
    readonly run_id: string
    /** Its task. */
    readonly task_uuid: string
    /** Why the run has to stop. */
    readonly reason: string
    /** Attempts so far. */
    readonly attempts: number
    /** When the next attempt is due. */
    readonly due_at: string
    /** Milliseconds since then. */
    readonly late_ms: number
  }>
}

/** Counts over time. */
export interface History {
  /** Seconds of a period. */
  readonly step: number
  /** Begin of the first period. */
  readonly from: string
  /** By name, one number for each period: a sum, or for `late_ms_max` the maximum. */
  readonly series: Readonly<Record<string, ReadonlyArray<number>>>
}

/** The targets of webhooks. */
export interface Origins {
  /** Most failures first, 200 at most. */
  readonly data: ReadonlyArray<{
    /** Origin of callback URLs. */
    readonly origin: string
    /** Its webhooks with an attempt to come. */
    readonly pending: number
    /** Its webhooks of the range that failed. */
    readonly failed: number
    /** Class of the newest failure. */
    readonly last_error: string | null
    /** The oldest failed webhook of the range. */
    readonly oldest_failed_at: string | null
  }>
  /** False when there are more origins or deliveries than are counted. */
  readonly complete: boolean
}

/** One page of webhooks. */
export interface Deliveries {
  /** Newest first. */
  readonly data: ReadonlyArray<Delivery>
  /** The `cursor` of the next page; null when nothing follows. */
  readonly next: string | null
  /**
   * False when the search examined its maximum number of rows before the page was full: `next` continues behind them.
   */
  readonly complete: boolean
}

/** The outcome. */
export interface Redelivered {
  /** Deliveries that match; counted up to 10,000. */
  readonly matched: number
  /** Deliveries that are sent again now. */
  readonly owed: number
  /** Deliveries that succeeded before, which deleted their secret: the client has to redeliver them. */
  readonly needs_secret: number
  /** Deliveries that match and were not sent again. */
  readonly left: number
}

/** The queue of an assistant. */
export interface QueuedAssistant {
  /** The assistant. */
  readonly assistant_id: number
  /** Its name, if the backend has listed it to a user lately. */
  readonly name: string | null
  /** The most runs of it that the core is given; null: `runs_per_assistant` of the queue holds. */
  readonly runs: number | null
  /** Runs that the core has: dispatched, and not interrupted or ended. */
  readonly running: number
  /** Runs that wait for room. */
  readonly waiting: number
  /** Since when the oldest of them waits: its creation, or its tool results. */
  readonly oldest_waiting_since: string | null
  /** True while its new runs are held. Resumed ones go on. */
  readonly paused: boolean
}

/** The runs that the core has, and those that wait for room. */
export interface Queue {
  /** `CORE_RUNS`: the most runs that the core is given; null without a limit. */
  readonly runs: number | null
  /** `CORE_RUNS_PER_ASSISTANT`; null without a limit. */
  readonly runs_per_assistant: number | null
  /** Since when the core says to the node that answers that it has no room; else null. */
  readonly core_busy_since: string | null
  /** While the node that answers cannot reach the core; else null. */
  readonly core_unreachable: {
    /** The first call or connection without an answer. */
    readonly since: string
    /** Why the last one failed. */
    readonly reason: string
  } | null
  /** Runs that the core has: dispatched, and not interrupted or ended. */
  readonly running: number
  /** Runs that wait for room. */
  readonly waiting: number
  /** Since when the oldest of them waits: its creation, or its tool results. */
  readonly oldest_waiting_since: string | null
  /** Assistants with runs, a limit or a pause: those with most waiting first, 200 at most. */
  readonly assistants: ReadonlyArray<QueuedAssistant>
}

/** The nodes and their shards. */
export interface Cluster {
  /** The nodes that report. */
  readonly members: ReadonlyArray<{
    /** Identifies the process. */
    readonly instance: string
    /** Its address for other nodes. */
    readonly address: string
    /** Version of the service. */
    readonly version: string
    /** True for the node that answered this request. */
    readonly is_self: boolean
    /** When it started. */
    readonly started_at: string
    /** When it reported last. */
    readonly seen_at: string
    /** It owns no shards and takes none. */
    readonly drained: boolean
    /** Numbers of its shards; null without a cluster. */
    readonly shards: ReadonlyArray<number> | null
    /** Live tasks of the node that run, or whose deadline is near. */
    readonly tasks: number
    /** The earliest deadline of its live tasks, searched every 10 s. */
    readonly next_due: string | null
    /** Maximum lateness of a deadline in the last two minutes. */
    readonly lateness_ms: number
  }>
  /** Number of all shards. */
  readonly shards: number
  /** Shards without an owner. */
  readonly unowned: ReadonlyArray<number>
}

/** One page of revocations. */
export interface Revocations {
  /** Newest first. */
  readonly data: ReadonlyArray<{
    /** The revoked token; null for a token without `jti` and for a user. */
    readonly jti: string | null
    /** SHA-256 of a revoked token without `jti`. */
    readonly token_hash: string | null
    /** The user whose tokens are revoked. */
    readonly sub: string | null
    /** With `sub`: tokens issued before this moment are revoked. */
    readonly issued_before: string | null
    /** When the tokens expire anyway; null means never. */
    readonly expires_at: string | null
    /** When it was recorded. */
    readonly revoked_at: string
  }>
  /** The `cursor` of the next page; null when nothing follows. */
  readonly next: string | null
  /**
   * False when the search examined its maximum number of rows before the page was full: `next` continues behind them.
   */
  readonly complete: boolean
}

/** An action of an operator, or of a call of another service. */
export interface AuditLine {
  /** Identifies the line. */
  readonly id: string
  /** When it was done. */
  readonly at: string
  /** The name of the token, of `INTERNAL_TOKEN_NAMES` or `OPERATOR_READ_TOKEN_NAMES`. */
  readonly operator: string
  /**
   * `api`, `cli` or `console`; `bulk` for each task of a bulk action; `rpc` or `internal` for calls of other services.
   */
  readonly via: string
  /** The action, as in `cancel`. */
  readonly action: string
  /** The task, delivery, node or token. */
  readonly target: string | null
  /** The user, or a pseudonym once the user's data are erased. */
  readonly sub: string | null
  /** Why, as the operator wrote. */
  readonly reason: string | null
  /**
   * `done`, `refused`, `unknown` if it was interrupted and may have been done, or `started` if the process or the
   * database went away meanwhile.
   */
  readonly outcome: string
  /** The bulk action. */
  readonly bulk_id: string | null
}

/** One page of the audit. */
export interface Audit {
  /** Newest first. */
  readonly data: ReadonlyArray<AuditLine>
  /** The `cursor` of the next page; null when nothing follows. */
  readonly next: string | null
  /** False when the search examined its maximum number of lines before the page was full. */
  readonly complete: boolean
}

/** The tasks or webhooks that an action would change. */
export interface DryRun {
  /** Tasks or webhooks that match. */
  readonly matched: number
  /** The newest 20 tasks or webhooks that match. */
  readonly sample: ReadonlyArray<Task | Delivery>
}

/** The action has begun. */
export interface StartedBulk {
  /** Identifies the action. */
  readonly id: string
  /** Tasks or webhooks that matched when it began. */
  readonly matched: number
}

/** An action on many tasks or webhooks. */
export interface Bulk {
  /** Identifies the action. */
  readonly id: string
  /** The change that it makes. */
  readonly action: "cancel" | "rerun" | "redeliver" | "delete" | "erase"
  /** As it was given, with its range. A user whose data were erased has a pseudonym. */
  readonly filter: JsonObject
  /** The operator, by the name of the token. */
  readonly by: string
  /** Why. */
  readonly reason: string | null
  /** Tasks or webhooks in a second. */
  readonly rate: number
  /** When it began. What had been created or had ended by then is the set. */
  readonly started_at: string
  /** When it was done or stopped. */
  readonly ended_at: string | null
  /** The state of the action. */
  readonly state: "running" | "done" | "stopped"
  /** Tasks or webhooks that matched when it began. */
  readonly matched: number
  /** Carried out. */
  readonly done: number
  /** Changed meanwhile, so that there was nothing to do. */
  readonly skipped: number
  /** Not carried out, because of an error. */
  readonly failed: number
  /** The first 20 errors. */
  readonly errors: ReadonlyArray<{
    /** The task or the webhook. */
    readonly id: string
    /** The error. */
    readonly message: string
  }>
  /** Of an erasure: ids of files of the assistant backend that the tasks named, 10,000 at most, for its own erasure. */
  readonly files?: ReadonlyArray<string>
}

/** The last bulk actions. */
export interface BulkList {
  /** The last 100, newest first. */
  readonly data: ReadonlyArray<Bulk>
}

/** Causes and alerts that operators have put aside for all of them. */
export interface Silences {
  /** Newest first, 1,000 at most. */
  readonly data: ReadonlyArray<{
    /** A cause of failures, or an alert that has ended. */
    readonly kind: "cause" | "alert"
    /** The `fingerprint` of a cause, or a name that the console gives an alert. */
    readonly key: string
    /** Its end. */
    readonly until: string
    /** The operator. */
    readonly by: string
  }>
}

/** A silence after its change. */
export interface SilenceState {
  /** A cause of failures, or an alert that has ended. */
  readonly kind: "cause" | "alert"
  /** The `fingerprint` of a cause, or a name that the console gives an alert. */
  readonly key: string
  /** Its end; null when it was ended. */
  readonly until: string | null
  /** The operator. */
  readonly by: string
}

/** One user, without what the tasks say. */
export interface User {
  /** The user. */
  readonly sub: string
  /** The active tasks that the user has and may have. */
  readonly slots: {
    /** Active tasks. */
    readonly used: number
    /** The limit that holds. */
    readonly maximum: number
  }
  /** Limits of the user's own. */
  readonly limits: {
    /** Null is the default. */
    readonly max_active_tasks: number | null
  }
  /** Tasks that are processing. */
  readonly running: number
  /** Tasks that are pending. */
  readonly waiting: number
  /** Tasks that wait for the user. */
  readonly interrupted: number
  /** Tasks that failed in the last seven days. */
  readonly failures: number
  /** Counted now. */
  readonly stored_bytes: {
    /** Bytes of requests and turns. */
    readonly bytes: number
    /** Tasks that were counted. */
    readonly tasks: number
    /** False when only the newest tasks were counted. */
    readonly complete: boolean
  }
  /** Of all tokens of the user; null without one. */
  readonly last_revocation: {
    /** When it was recorded. */
    readonly revoked_at: string
    /** Tokens issued before this moment are revoked. */
    readonly issued_before: string
  } | null
  /** Schedules by their state. */
  readonly schedules?: Json
  /** Of the current month in UTC: tasks, tokens and cost. */
  readonly usage?: Json
}

/** Actions that the audit is filtered by. */
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
