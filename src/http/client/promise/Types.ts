/**
 * Requests and responses, as they are in JSON. Made from the service's description by `npm run docs`: do not edit.
 *
 * Timestamps are ISO 8601 in UTC with six fractional digits. In requests null means the same as absent. Responses may gain fields at any
 * time.
 */

import type { Json, JsonObject, Turn } from "../../../domain/Turn.ts"

export type * from "../../../domain/Turn.ts"

/** Labels of a task: texts by their keys. */
export type Metadata = Readonly<Record<string, string>>

/** A piece of text. */
export interface TextItem {
  readonly type: "text"
  /** The user's text. */
  readonly text: string
}

/** An uploaded file, as `POST /api/files` returned it. The model chooses the tool that processes it. */
export interface FileItem {
  readonly type: "file"
  /** The file. */
  readonly file: {
    /** Always a string, even when the upload returned a number. */
    readonly id: string
    /** File name. */
    readonly name: string
    /** Media type, as in `application/pdf`. */
    readonly mime_type: string
    /** The location of the file in storage, as the upload returned it. */
    readonly provider_data?: {
      /** Storage-relative path of the file. */
      readonly path?: string | null | undefined
    } | null | undefined
  }
}

/** A recording, uploaded like a file. It is transcribed to text before processing. */
export interface VoiceItem {
  readonly type: "voice"
  /** The recording. */
  readonly voice: {
    /** Always a string, even when the upload returned a number. */
    readonly id: string
    /** File name. */
    readonly name: string
    /** Media type, as in `application/pdf`. */
    readonly mime_type: string
    /** Length in seconds. */
    readonly duration?: number | null | undefined
  }
}

/** One input item; items of all types may be mixed. */
export type InputItem = TextItem | FileItem | VoiceItem

/** A function that the client runs for the model. */
export interface ClientTool {
  readonly type: "function"
  /** Unique within the request. */
  readonly name: string
  /** Tells the model when and how to call the tool. */
  readonly description?: string | null | undefined
  /** JSON Schema of its arguments. */
  readonly parameters?: object | null | undefined
  /** True if arguments must match `parameters` exactly. */
  readonly strict?: boolean | null | undefined
  /** JSON Schema of its output, for forms. */
  readonly output_schema?: object | undefined
}

/** A task to run. `null` means the same as absent. */
export interface CreateTask {
  /** The assistant, by its id in the assistant backend. */
  readonly assistant_id: number
  /** The user's input: 1 to 10000 items. */
  readonly input: ReadonlyArray<InputItem>
  /** Conversation so far, oldest first: up to 10000 items. An item may be the whole `turn` of an earlier task. */
  readonly turns?: ReadonlyArray<JsonObject> | null | undefined
  /** Id of an LLM configuration of the assistant, not a model's name. An unknown id silently means the default. */
  readonly llm_model_id?: number | null | undefined
  /** Id of an image generator configuration of the assistant. An unknown id silently means the default. */
  readonly image_generator_id?: number | null | undefined
  /** The URL that receives webhooks: absolute, http or https, up to 2048 characters. */
  readonly callback_url?: string | null | undefined
  /** Key of the webhooks' HMAC-SHA256 signature, up to 255 characters. */
  readonly callback_secret?: string | null | undefined
  /** Functions that the client runs for the model: up to 128, each with a unique name. */
  readonly client_tools?: ReadonlyArray<ClientTool | JsonObject> | null | undefined
  /** Limit in seconds, counted from creation and including the wait in the queue; 86400 by default. */
  readonly max_execution_time?: number | null | undefined
  /**
   * Place in the queue while the core has no room: 0 to 5, 5 by default. A higher one goes first; one that waits rises
   * by one a minute.
   */
  readonly priority?: number | null | undefined
  /**
   * Labels of the client's own: up to 16 texts of up to 512 characters, by keys of up to 64. `?include=metadata`
   * returns them, `?metadata[key]=value` filters lists.
   */
  readonly metadata?: Metadata | null | undefined
}

/**
 * Fields that replace those of the original request; `null` removes an optional one. `callback_secret` is never
 * copied: pass it again for signed webhooks.
 */
export interface RerunTask {
  /** The assistant, by its id in the assistant backend. */
  readonly assistant_id?: number | undefined
  /** The user's input: 1 to 10000 items. */
  readonly input?: ReadonlyArray<InputItem> | undefined
  /** Conversation so far, oldest first: up to 10000 items. An item may be the whole `turn` of an earlier task. */
  readonly turns?: ReadonlyArray<JsonObject> | null | undefined
  /** Id of an LLM configuration of the assistant, not a model's name. An unknown id silently means the default. */
  readonly llm_model_id?: number | null | undefined
  /** Id of an image generator configuration of the assistant. An unknown id silently means the default. */
  readonly image_generator_id?: number | null | undefined
  /** The URL that receives webhooks: absolute, http or https, up to 2048 characters. */
  readonly callback_url?: string | null | undefined
  /** Key of the webhooks' HMAC-SHA256 signature, up to 255 characters. */
  readonly callback_secret?: string | null | undefined
  /** Functions that the client runs for the model: up to 128, each with a unique name. */
  readonly client_tools?: ReadonlyArray<ClientTool | JsonObject> | null | undefined
  /** Limit in seconds, counted from creation and including the wait in the queue; 86400 by default. */
  readonly max_execution_time?: number | null | undefined
  /**
   * Place in the queue while the core has no room: 0 to 5, 5 by default. A higher one goes first; one that waits rises
   * by one a minute.
   */
  readonly priority?: number | null | undefined
  /**
   * Labels of the client's own: up to 16 texts of up to 512 characters, by keys of up to 64. `?include=metadata`
   * returns them, `?metadata[key]=value` filters lists.
   */
  readonly metadata?: Metadata | null | undefined
}

/** Options of a redelivery. */
export interface Redeliver {
  /**
   * The task's `callback_secret`. Required for a signed webhook that was delivered, because the secret is deleted on
   * success.
   */
  readonly callback_secret?: string | null | undefined
}

/** The result of one pending call. */
export interface ToolResult {
  /** The `id` of a pending call. */
  readonly tool_call_id: string
  /** The output of the tool: any JSON. */
  readonly output: Json
  /** Whether the tool failed. `output` then describes the error. */
  readonly is_error?: boolean | null | undefined
}

/** Why the task is canceled. */
export interface CancelTask {
  /** Stored in `error`; up to 1000 characters. */
  readonly reason?: string | null | undefined
}

/** A schedule. `null` means the same as absent. */
export interface CreateSchedule {
  /** `cron` fires at every moment of a rhythm, `once` at one moment. */
  readonly type: "cron" | "once"
  /** A name of the client's own for `PUT`, unique for the user; up to 100 characters. */
  readonly key?: string | null | undefined
  /** For people; up to 100 characters. */
  readonly name?: string | null | undefined
  /**
   * Minute, hour, day, month and weekday, with lists, ranges, steps and names such as `MON` or `JAN`. If day and
   * weekday are both restricted, either is enough, unless one of them begins with `*`.
   */
  readonly cron?: string | null | undefined
  /** An IANA time zone such as `Europe/Berlin`; `UTC` by default. */
  readonly timezone?: string | null | undefined
  /** For `once`: the moment, at most a year ahead. */
  readonly run_at?: string | null | undefined
  /** For `once`, instead of `run_at`: seconds from now, 1 to 31536000. */
  readonly delay?: number | null | undefined
  /** Nothing fires before this moment. */
  readonly starts_at?: string | null | undefined
  /** Nothing fires from this moment on. */
  readonly ends_at?: string | null | undefined
  /**
   * Seconds by which each moment is later at most. How much follows from the schedule's id: it is the same each time.
   * 0 by default.
   */
  readonly spread?: number | null | undefined
  /**
   * When the task before has not ended: `skip` (default) leaves the moment out, `queue` waits for its end, `allow`
   * starts beside it.
   */
  readonly overlap?: "skip" | "queue" | "allow" | null | undefined
  /** Seconds, 3600 by default: of the moments that were missed by less, the latest is made up for. */
  readonly catchup_window?: number | null | undefined
  /** Pauses the schedule when as many of its tasks in a row failed. */
  readonly pause_after_failures?: number | null | undefined
  readonly task: CreateTask
}

/** The rhythm to show. */
export interface PreviewSchedule {
  readonly cron: string
  /** An IANA time zone such as `Europe/Berlin`; `UTC` by default. */
  readonly timezone?: string | null | undefined
  /** Number of moments; 5 by default. */
  readonly count?: number | null | undefined
  /** The moments after this one; now by default. */
  readonly after?: string | null | undefined
}

/** The fields to change; `null` resets an optional one. `task` is replaced whole. */
export interface UpdateSchedule {
  /** `cron` fires at every moment of a rhythm, `once` at one moment. */
  readonly type?: "cron" | "once" | undefined
  /** A name of the client's own for `PUT`, unique for the user; up to 100 characters. */
  readonly key?: string | null | undefined
  /** For people; up to 100 characters. */
  readonly name?: string | null | undefined
  /**
   * Minute, hour, day, month and weekday, with lists, ranges, steps and names such as `MON` or `JAN`. If day and
   * weekday are both restricted, either is enough, unless one of them begins with `*`.
   */
  readonly cron?: string | null | undefined
  /** An IANA time zone such as `Europe/Berlin`; `UTC` by default. */
  readonly timezone?: string | null | undefined
  /** For `once`: the moment, at most a year ahead. */
  readonly run_at?: string | null | undefined
  /** For `once`, instead of `run_at`: seconds from now, 1 to 31536000. */
  readonly delay?: number | null | undefined
  /** Nothing fires before this moment. */
  readonly starts_at?: string | null | undefined
  /** Nothing fires from this moment on. */
  readonly ends_at?: string | null | undefined
  /**
   * Seconds by which each moment is later at most. How much follows from the schedule's id: it is the same each time.
   * 0 by default.
   */
  readonly spread?: number | null | undefined
  /**
   * When the task before has not ended: `skip` (default) leaves the moment out, `queue` waits for its end, `allow`
   * starts beside it.
   */
  readonly overlap?: "skip" | "queue" | "allow" | null | undefined
  /** Seconds, 3600 by default: of the moments that were missed by less, the latest is made up for. */
  readonly catchup_window?: number | null | undefined
  /** Pauses the schedule when as many of its tasks in a row failed. */
  readonly pause_after_failures?: number | null | undefined
  readonly task?: CreateTask | undefined
}

/** Why the schedule is paused. */
export interface PauseSchedule {
  /** Shown in `paused_reason`; up to 1000 characters. */
  readonly reason?: string | null | undefined
}

/** The task that was created. */
export interface CreatedTask {
  /** Task identifier. */
  readonly uuid: string
  readonly status: "pending"
  /** The limit of this task, in seconds from creation. */
  readonly max_execution_time: number
}

/** Status of a task. */
export type TaskStatus = "pending" | "processing" | "interrupted" | "completed" | "failed" | "canceled"

/** A call of a client tool that awaits its result. */
export interface ToolCall {
  /** Identifies the call. Its result carries it as `tool_call_id`. */
  readonly id: string
  /** The client tool to run. */
  readonly name: string
  readonly arguments: JsonObject
}

/** The party that has to act next, what it has to provide, and until when. */
export interface WaitingOn {
  /** The party that has to act; `queue` while the core has no room for the run. */
  readonly party: "core" | "client" | "queue"
  /** The act that the party has to provide. */
  readonly for: "acceptance" | "result" | "tool_results" | "room"
  /**
   * With `queue` the place in the queue, 1 for the next run. An estimate; 1000 means at least so many. Otherwise null.
   */
  readonly position: number | null
  /** Deadline; the task fails when it passes. */
  readonly until: string
  /** The last sign of life, while the core reports nothing of the run and it was dispatched again; otherwise null. */
  readonly silent_since: string | null
  /** With `silent_since`, how often the run was dispatched again since then; otherwise null. */
  readonly hand_overs: number | null
}

/** One row of the task list; it never has a `turn`. */
export interface TaskSummary {
  /** Task identifier. */
  readonly uuid: string
  readonly status: TaskStatus
  /** Human-readable reason when failed; when canceled, the `reason` if one was given. */
  readonly error: string | null
  /** Moment of the creation. */
  readonly created_at: string
  /** Moment of the transition to a final status; null before. */
  readonly completed_at: string | null
  /** Present only while the status is interrupted: the client tool calls that need results. */
  readonly pending_tool_calls?: ReadonlyArray<ToolCall>
  /** Present only with `?include=metadata`: the `metadata` of the request. */
  readonly metadata?: Metadata
  /**
   * Present only with `?include=excerpt`: the first 120 characters of the request, or the name of its first file; null
   * if the request is not kept.
   */
  readonly excerpt?: string | null
  /** Present only with `?include=assistant`: the assistant; null for a task of an early version. */
  readonly assistant_id?: number | null
  /** Present only with `?include=waiting_on`: the party that has to act next; null for an ended task. */
  readonly waiting_on?: WaitingOn | null
}

/** Position of the page among all pages. */
export interface PageMeta {
  /** The requested page. */
  readonly current_page: number
  /** The requested page size. */
  readonly per_page: number
  /** At least 1. */
  readonly last_page: number
  /** All that match, over all pages. */
  readonly total: number
}

/** The request of a task, without secrets. Requests of more than 262144 bytes are not kept. */
export interface AskedTask {
  /** The assistant. */
  readonly assistant_id: number
  /** The input items. */
  readonly input: ReadonlyArray<InputItem>
  /** The conversation, earlier turns replaced by their messages. */
  readonly turns: ReadonlyArray<JsonObject>
  /** The task whose messages come in front of `turns`, behind instructions; null without one. */
  readonly continues: string | null
  /** The client tools, in one form. */
  readonly client_tools: ReadonlyArray<JsonObject>
  /** The LLM configuration. */
  readonly llm_model_id: number | null
  /** The image generator configuration. */
  readonly image_generator_id: number | null
  /** Options of the model by a client of another protocol; null without them. */
  readonly options: JsonObject | null
  /** The limit in seconds. */
  readonly max_execution_time: number
  /** The place in the queue while the core has no room: 0 to 9, 5 usually. */
  readonly priority: number
  /** The URL that receives webhooks. */
  readonly callback_url: string | null
  /** The client's labels. */
  readonly metadata: Metadata
}

/** The party or clock that ended a task. */
export interface TaskEndedBy {
  /**
   * The `user`, an `operator`, a call of another service (`rpc`), the `core`, or what passed: `time_limit`,
   * `acceptance_timeout`, `revocation`.
   */
  readonly by: string
  readonly at: string
}

/** The schedule that made a task. */
export interface TaskSchedule {
  /** Schedule identifier. */
  readonly id: string
  /** The moment of the schedule. */
  readonly scheduled_for: string
}

/** Consumption of a task, as the core reported it. */
export interface TaskUsage {
  /** Tokens that models read, cached ones included. */
  readonly input_tokens: number
  /** Tokens that models wrote, reasoning included. */
  readonly output_tokens: number
  /** Input and output, as the core added them. */
  readonly total_tokens: number
  /** The part of the input that the provider had cached. */
  readonly cached_input_tokens: number
  /** The part of the output that is reasoning. */
  readonly reasoning_tokens: number
  /** Time in `processing`, without waiting. */
  readonly active_seconds: number
  /** Plain decimal; null when nothing has a price. */
  readonly cost: string | null
  /** `none`: the core reported no usage. */
  readonly source: "reported" | "none"
  /** True when the task has ended. */
  readonly is_final: boolean
}

/** A task. A webhook carries the same object. */
export interface Task {
  /** Task identifier. */
  readonly uuid: string
  readonly status: TaskStatus
  /** Human-readable reason when failed; when canceled, the `reason` if one was given. */
  readonly error: string | null
  /** Moment of the creation. */
  readonly created_at: string
  /** Moment of the transition to a final status; null before. */
  readonly completed_at: string | null
  /** Present only while the status is interrupted: the client tool calls that need results. */
  readonly pending_tool_calls?: ReadonlyArray<ToolCall>
  /** The result when completed. Before that, and in a failed task, it may have partial output. */
  readonly turn: Turn | null
  /** Present only with `?include=waiting_on`; null when the task has ended. */
  readonly waiting_on?: WaitingOn | null
  /** Present only with `?include=metadata`: the `metadata` of the request. */
  readonly metadata?: Metadata
  /** Present only with `?include=request`: the request. Null when it is not kept. */
  readonly request?: AskedTask | null
  /** Present only with `?include=ended_by`: the party or clock that ended the task; null while it has not ended. */
  readonly ended_by?: TaskEndedBy | null
  /** Present only with `?include=schedule`: the schedule that made the task, and its moment; null without one. */
  readonly schedule?: TaskSchedule | null
  /**
   * Present only with `?include=usage`: the consumption of the task; null until an interrupt or the end of the task.
   */
  readonly usage?: TaskUsage | null
}

/** A change of a task, or its progress. */
export interface TaskEvent {
  /** Task identifier. */
  readonly uuid: string
  /** Number of changes of the task so far; 0 is its creation. */
  readonly revision: number
  readonly status: TaskStatus
  readonly occurred_at: string
  /**
   * Only with `?include=turn`, in a progress event: the text parts of the partial turn's `output`, joined by a blank
   * line and cut after 65536 characters. Absent when it has not changed, when a later event has it, and when the JSON
   * of the turn is longer than 262144 bytes.
   */
  readonly text?: string
  /** The new status, or `progress`, which does not change it. */
  readonly event: "pending" | "processing" | "interrupted" | "completed" | "failed" | "canceled" | "progress"
}

/**
 * Only with `?include=text`: the `data` of an event `text`. Its `id` is the last revision, a dot, and the units of the
 * text so far.
 */
export interface TextEvent {
  /** UTF-16 units of the text before this part. */
  readonly offset: number
  /** The text that was written since. */
  readonly text: string
  /** True when the text is another one, not a continuation: forget the one before. */
  readonly replaced?: boolean
}

/** One POST to the callback URL. */
export interface DeliveryAttempt {
  /** From 1. */
  readonly number: number
  readonly started_at: string
  /** Milliseconds; null while the attempt is in progress, or when its node stopped before it ended. */
  readonly duration_ms: number | null
  /** HTTP status of the response; null without one. */
  readonly response_status: number | null
  /** Class of the failure; null after a success. */
  readonly error: "address_refused" | "name_not_resolved" | "connection_failed" | "tls_failed" | "timed_out" | "broken_answer" | "redirected" | "not_2xx" | "lost" | "not_sent" | null
  /** A remedy, where the status names one: a receiver that answers 413 has to take larger bodies; otherwise null. */
  readonly hint: string | null
}

/** The webhook of one status, with its attempts. */
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
}

/** The tasks that were canceled. */
export interface CanceledTasks {
  /** Number of canceled tasks. */
  readonly canceled: number
  /** Their identifiers. */
  readonly uuids: ReadonlyArray<string>
}

/** The task was resumed. */
export interface ResumedTask {
  /** Task identifier. */
  readonly uuid: string
  readonly status: "processing"
}

/** The task was canceled. */
export interface CanceledTask {
  /** Task identifier. */
  readonly uuid: string
  readonly status: "canceled"
}

/** An uploaded file; it can be placed into `input` as it is. */
export type UploadedFile = {
  readonly type: "file"
  /** The file. */
  readonly file: {
    /** Always a string. */
    readonly id: string
    /** File name. */
    readonly name: string
    /** Media type. */
    readonly mime_type: string
    /** Location of the file in the storage. */
    readonly provider_data: {
      /** Storage-relative path of the file. */
      readonly path: string
    }
  }
}

/** The download link of a file is `url`, then `/`, then its `provider_data.path`. */
export interface StorageBase {
  /** Public base URL of the storage, without a trailing slash. */
  readonly url: string
}

/** State of a schedule. */
export type ScheduleState = "active" | "paused" | "ended"

/** Why a schedule is paused. */
export interface PausedReason {
  /** The cause of the pause. */
  readonly type: "manual" | "failures" | "token" | "revoked"
  /** The reason in words. */
  readonly message: string
}

/** A schedule makes tasks of its user at its moments. */
export interface Schedule {
  /** Schedule identifier. */
  readonly id: string
  /** The client's own name of the schedule. */
  readonly key: string | null
  /** For people. */
  readonly name: string | null
  /** `cron` fires at every moment of a rhythm, `once` at one moment. */
  readonly type: "cron" | "once"
  /** The rhythm, as it was given. */
  readonly cron: string | null
  /** The time zone of the rhythm. */
  readonly timezone: string
  /** The moment of `once`. */
  readonly run_at: string | null
  /** The delay of `once`, in seconds. */
  readonly delay: number | null
  /** Nothing fires before. */
  readonly starts_at: string | null
  /** Nothing fires from this moment on. */
  readonly ends_at: string | null
  /** Seconds by which a moment is later at most. */
  readonly spread: number
  /** The treatment of a moment at which the task before is active. */
  readonly overlap: "skip" | "queue" | "allow"
  /** Seconds in which a missed moment is made up for. */
  readonly catchup_window: number
  /** Failed tasks in a row that pause it. */
  readonly pause_after_failures: number | null
  readonly task: CreateTask
  readonly state: ScheduleState
  /** Null unless paused. */
  readonly paused_reason: PausedReason | null
  /** The next moment, without the spread. */
  readonly next_at: string | null
  /** The latest moment that fired. */
  readonly last_at: string | null
  /** Changes with every change and every firing. */
  readonly revision: number
  readonly created_at: string
  /** The next 5 moments; not in lists. */
  readonly upcoming?: ReadonlyArray<string>
}

/** One moment of a schedule and what became of it. */
export interface ScheduleRun {
  /** The moment; of missed ones the first. */
  readonly scheduled_for: string
  /** When the task was created. */
  readonly started_at: string | null
  /** `due` and `waiting` may still become another one; `error` says what it waits for. */
  readonly outcome: "due" | "waiting" | "created" | "skipped_overlap" | "missed" | "failed"
  /** 1, except of `missed`: how many moments. */
  readonly count: number
  /** The task that was created. */
  readonly task_uuid: string | null
  /** Why there is no task, or not yet. */
  readonly error: string | null
}

/** Usage of one period in UTC and one group. */
export interface UsageBucket {
  readonly from: string
  /** Exclusive. */
  readonly to: string
  /** The keys of `group_by`. */
  readonly group: {
    /** The assistant. */
    readonly assistant?: number
    /** The model; null where the core named none. */
    readonly model?: string | null
    /** The user; for operators only. */
    readonly sub?: string
  }
  /** Tasks that ended in the period. */
  readonly tasks: number
  /** These tasks by their last status. */
  readonly ended: {
    /** Completed tasks. */
    readonly completed: number
    /** Failed tasks. */
    readonly failed: number
    /** Canceled tasks. */
    readonly canceled: number
  }
  /** Tokens that models read, cached ones included. */
  readonly input_tokens: number
  /** Tokens that models wrote, reasoning included. */
  readonly output_tokens: number
  /** Input and output, as the core added them. */
  readonly total_tokens: number
  /** The part of the input that the provider had cached. */
  readonly cached_input_tokens: number
  /** The part of the output that is reasoning. */
  readonly reasoning_tokens: number
  /** Time in `processing`, without waiting. */
  readonly active_seconds: number
  /** Plain decimal: the sum of what has a price. Null when nothing has. */
  readonly cost: string | null
  /** Tokens that have no price. */
  readonly unpriced_tokens: number
  /** Tasks that ended without reported usage. */
  readonly unmetered_tasks: number
}

/** The sums over all buckets. */
export interface UsageTotals {
  /** Tasks that ended in the period. */
  readonly tasks: number
  /** These tasks by their last status. */
  readonly ended: {
    /** Completed tasks. */
    readonly completed: number
    /** Failed tasks. */
    readonly failed: number
    /** Canceled tasks. */
    readonly canceled: number
  }
  /** Tokens that models read, cached ones included. */
  readonly input_tokens: number
  /** Tokens that models wrote, reasoning included. */
  readonly output_tokens: number
  /** Input and output, as the core added them. */
  readonly total_tokens: number
  /** The part of the input that the provider had cached. */
  readonly cached_input_tokens: number
  /** The part of the output that is reasoning. */
  readonly reasoning_tokens: number
  /** Time in `processing`, without waiting. */
  readonly active_seconds: number
  /** Plain decimal: the sum of what has a price. Null when nothing has. */
  readonly cost: string | null
  /** Tokens that have no price. */
  readonly unpriced_tokens: number
  /** Tasks that ended without reported usage. */
  readonly unmetered_tasks: number
}

/** Usage by period and group. */
export interface Usage {
  /** By period, the largest groups first; without empty ones. */
  readonly data: ReadonlyArray<UsageBucket>
  readonly totals: UsageTotals
  /** The query that was answered. */
  readonly meta: {
    readonly from: string
    readonly to: string
    /** The length of a bucket. */
    readonly step: "hour" | "day" | "month" | "total"
    /** The currency of all costs; null without prices. */
    readonly currency: string | null
    /** Everything before this moment is final. */
    readonly complete_until: string
  }
}

/** The parameters of `listTasks`. */
export interface ListTasksQuery {
  /**
   * Only tasks of these statuses: one value, or several with commas. Repeated parameters (`status=…&status=…` or
   * `status[]=…`) are accepted too. An empty or unknown value is 422.
   */
  readonly status?: TaskStatus | ReadonlyArray<TaskStatus> | undefined
  /** Page number, from 1. */
  readonly page?: number | undefined
  /** Page size. */
  readonly per_page?: number | undefined
  /** Only tasks with these pairs of metadata, each as `metadata[key]=value`. */
  readonly metadata?: Metadata | undefined
  /**
   * Only tasks with this text in their id, in their metadata or in their excerpt, whatever the case. It searches the
   * ids and metadata of the caller's newest 10,000 tasks, and the excerpts of the newest 1,000.
   */
  readonly q?: string | undefined
  /** Only tasks of this assistant. */
  readonly assistant_id?: number | undefined
  /** Only tasks created at this moment or later. */
  readonly from?: string | undefined
  /** Only tasks created before this moment. */
  readonly to?: string | undefined
  /**
   * `metadata` adds the metadata of each task, `excerpt` the beginning of its request, `waiting_on` the party that has
   * to act next, and `assistant` the `assistant_id`.
   */
  readonly include?: "metadata" | "excerpt" | "waiting_on" | "assistant" | ReadonlyArray<"metadata" | "excerpt" | "waiting_on" | "assistant"> | undefined
  /** Only tasks of the schedule with this id: its newest 1,000. */
  readonly schedule?: string | undefined
}

/** The parameters of `getTask`. */
export interface GetTaskQuery {
  /**
   * Seconds to hold the response until the status is final or `interrupted`, or differs from the version in
   * `If-None-Match`. It is held for 55 s at most.
   */
  readonly wait?: number | undefined
  /**
   * Adds fields: `waiting_on`, the party that has to act next; `request`, the original request; `metadata`. `turn` is
   * always there. `ended_by`: `by` (`user`, `operator`, `rpc`, `core`, `time_limit`, `acceptance_timeout` or
   * `revocation`) and `at`; null while the task has not ended. `schedule`: `id` and `scheduled_for` of the schedule
   * that made the task, or null. `usage`: tokens and active seconds; null until an interrupt or the end.
   */
  readonly include?: "waiting_on" | "request" | "turn" | "metadata" | "ended_by" | "schedule" | "usage" | ReadonlyArray<"waiting_on" | "request" | "turn" | "metadata" | "ended_by" | "schedule" | "usage"> | undefined
}

/** The parameters of `getTaskEvents`. */
export interface GetTaskEventsQuery {
  /**
   * `text` adds events `text` with the answer as it is written, at most 20 a second: `id` is the last revision, a dot
   * and the end of the text. `turn` adds the text of the partial turn to progress events.
   */
  readonly include?: "text" | "turn" | ReadonlyArray<"text" | "turn"> | undefined
}

/** The parameters of `listSchedules`. */
export interface ListSchedulesQuery {
  /** One or more states, separated by commas. */
  readonly state?: ScheduleState | ReadonlyArray<ScheduleState> | undefined
  /** Page number. */
  readonly page?: number | undefined
  /** Page size. */
  readonly per_page?: number | undefined
}

/** The parameters of `listScheduleRuns`. */
export interface ListScheduleRunsQuery {
  /** Page number. */
  readonly page?: number | undefined
  /** Page size. */
  readonly per_page?: number | undefined
}

/** The parameters of `getUsage`. */
export interface GetUsageQuery {
  /** Begin of the range, rounded down to the hour; by default that of this UTC month. */
  readonly from?: string | undefined
  /**
   * End of the range, exclusive, rounded up to the hour; now by default. At most 31 days with the step `hour`, and 400
   * with `day`.
   */
  readonly to?: string | undefined
  /** The length of a bucket in UTC. */
  readonly step?: "hour" | "day" | "month" | "total" | undefined
  /** At most 2 of these, separated by commas. */
  readonly group_by?: "assistant" | "model" | ReadonlyArray<"assistant" | "model"> | undefined
  /** Only tasks of this assistant. */
  readonly assistant_id?: number | undefined
}
