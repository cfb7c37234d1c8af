/**
 * Request and response types, written out so that the package needs no other types. `Types.test.ts` compares them with the
 * service's schemas.
 */

import type { Json, JsonObject, Turn } from "../../../domain/Turn.ts"

export type * from "../../../domain/Turn.ts"

/** `completed`, `failed` and `canceled` are final. */
export type TaskStatus = "pending" | "processing" | "interrupted" | "completed" | "failed" | "canceled"

export interface TextItem {
  readonly type: "text"
  readonly text: string
}

/** An uploaded file, as `files.upload` returns it. */
export interface FileItem {
  readonly type: "file"
  readonly file: {
    readonly id: string
    readonly name: string
    /** Media type, as in `application/pdf`. */
    readonly mime_type: string
    readonly provider_data?: { readonly path?: string | null | undefined } | null | undefined
  }
}

/** A recording, uploaded like a file. It is transcribed to text. */
export interface VoiceItem {
  readonly type: "voice"
  readonly voice: {
    readonly id: string
    readonly name: string
    readonly mime_type: string
    /** Seconds. */
    readonly duration?: number | null | undefined
  }
}

export type InputItem = TextItem | FileItem | VoiceItem

/** A function that the client runs for the model. */
export interface ClientTool {
  readonly type: "function"
  /** 1 to 64 letters, digits, `_` or `-`. */
  readonly name: string
  /** When and how the model should call the tool. */
  readonly description?: string | null | undefined
  /** JSON Schema of the arguments, an object. */
  readonly parameters?: object | null | undefined
  /** Whether the model must follow `parameters` exactly. */
  readonly strict?: boolean | null | undefined
}

/** A task to run. `null` means the same as absent. */
export interface CreateTask {
  /** The assistant, by its id in the assistant backend. */
  readonly assistant_id: number
  /** 1 to 10,000 items. */
  readonly input: ReadonlyArray<InputItem>
  /** Conversation so far, oldest first: messages, or the whole `turn` of an earlier task. */
  readonly turns?: ReadonlyArray<JsonObject> | null | undefined
  /** An LLM configuration of the assistant. An unknown id means the default. */
  readonly llm_model_id?: number | null | undefined
  /** An image generator configuration of the assistant. An unknown id means the default. */
  readonly image_generator_id?: number | null | undefined
  /** The absolute URL that receives webhooks. */
  readonly callback_url?: string | null | undefined
  /** The key that signs the webhooks, up to 255 characters. */
  readonly callback_secret?: string | null | undefined
  /** Up to 128 tools with unique names, also in the forms of OpenAI (nested), MCP and Anthropic. */
  readonly client_tools?: ReadonlyArray<ClientTool | JsonObject> | null | undefined
  /** Limit in seconds, counted from creation: 1 to 86,400, which is the default. */
  readonly max_execution_time?: number | null | undefined
  /** Place in the queue while the core has no room: 0 to 5, which is the default. A higher one goes first. */
  readonly priority?: number | null | undefined
  /** Labels of your own: up to 16 texts of up to 512 characters, by keys of up to 64. */
  readonly metadata?: Metadata | null | undefined
}

export type Metadata = Readonly<Record<string, string>>

/** Fields that replace those of the original request; `null` removes an optional one. `callback_secret` is never copied. */
export type RerunTask = Partial<CreateTask>

/** A call of a client tool that awaits its result. */
export interface ToolCall {
  readonly id: string
  readonly name: string
  readonly arguments: JsonObject
}

export interface ToolResult {
  /** The `id` of a pending call. */
  readonly tool_call_id: string
  readonly output: Json
  /** The tool failed, and `output` describes the error. */
  readonly is_error?: boolean | null | undefined
}

/** One row of the task list. Timestamps are ISO 8601 in UTC with six fractional digits. */
export interface TaskSummary {
  readonly uuid: string
  readonly status: TaskStatus
  /** The reason of a failure, or the `reason` of a cancellation. */
  readonly error: string | null
  readonly created_at: string
  /** The moment of the transition to a final status. */
  readonly completed_at: string | null
  /** Present only while the status is `interrupted`. */
  readonly pending_tool_calls?: ReadonlyArray<ToolCall>
  /** Present only with `?include=metadata`. */
  readonly metadata?: Metadata
  /** Present only with `?include=excerpt`: the first 120 characters of the request; null if it is not kept. */
  readonly excerpt?: string | null
  /** Present only with `?include=assistant`. */
  readonly assistant_id?: number | null
  /** Present only with `?include=waiting_on`; null when the task has ended. */
  readonly waiting_on?: WaitingOn | null
}

/** The party that has to act next, what it has to provide, and the deadline. */
export interface WaitingOn {
  /** `queue` while the core has no room for the run. */
  readonly party: "core" | "client" | "queue"
  readonly for: "acceptance" | "result" | "tool_results" | "room"
  /** Present only with `queue`: the place of the run, 1 for the next one. An estimate; 1000 means at least so many. */
  readonly position?: number
  readonly until: string
  /** Present only while the core reports nothing of the run and it was handed over again: the last sign of life. */
  readonly silent_since?: string
  /** How often it was handed over again since then. */
  readonly hand_overs?: number
}

export interface Task extends Omit<TaskSummary, "excerpt" | "assistant_id"> {
  /** The result when completed. Before that, and in a failed task, it may have partial output. */
  readonly turn: Turn | null
  /** Present only with `?include=request`; null when it is not kept. */
  readonly request?: AskedTask | null
  /** Present only with `?include=usage`; null until an interrupt or the end. */
  readonly usage?: TaskUsage | null
}

/** Tokens, as the core reported them. */
export interface TokenCounts {
  /** Cached tokens included. */
  readonly input_tokens: number
  /** Reasoning included. */
  readonly output_tokens: number
  readonly total_tokens: number
  readonly cached_input_tokens: number
  readonly reasoning_tokens: number
  /** Time in `processing`, without waiting. */
  readonly active_seconds: number
  /** Plain decimal; null when nothing has a price. */
  readonly cost: string | null
}

/** The consumption of a task. */
export interface TaskUsage extends TokenCounts {
  /** `none`: the core reported no usage. */
  readonly source: "reported" | "none"
  readonly is_final: boolean
}

/** The request of a task, without secrets: earlier turns as their messages, client tools in one form. */
export interface AskedTask {
  readonly assistant_id: number
  readonly input: ReadonlyArray<InputItem>
  readonly turns: ReadonlyArray<JsonObject>
  /** The task whose messages come in front of `turns`. */
  readonly continues?: string
  readonly client_tools: ReadonlyArray<JsonObject>
  readonly llm_model_id: number | null
  readonly image_generator_id: number | null
  /** The options that a client of another protocol gave for the model. */
  readonly options?: JsonObject
  /** Seconds. */
  readonly max_execution_time: number
  /** 0 to 9, 5 usually. */
  readonly priority: number
  readonly callback_url: string | null
  readonly metadata: Metadata
}

export interface TaskPageBody {
  readonly data: ReadonlyArray<TaskSummary>
  readonly meta: {
    readonly current_page: number
    readonly per_page: number
    /** At least 1. */
    readonly last_page: number
    /** Tasks that match, over all pages. */
    readonly total: number
  }
}

export interface TaskEvent {
  readonly uuid: string
  /** Number of changes of the task so far; 0 is its creation. */
  readonly revision: number
  readonly status: TaskStatus
  readonly occurred_at: string
  /** The new status, or `progress`, which does not change it. */
  readonly event: TaskStatus | "progress"
  /** Only with `include: "turn"`, in a progress event: the text of the partial turn, if it has changed. Cut when it is long. */
  readonly text?: string
}

export interface CreatedTask {
  readonly uuid: string
  readonly status: "pending"
  /** Seconds from creation. */
  readonly max_execution_time: number
}

export interface ResumedTask {
  readonly uuid: string
  readonly status: "processing"
}

export interface CanceledTask {
  readonly uuid: string
  readonly status: "canceled"
}

export interface CanceledTasks {
  readonly canceled: number
  readonly uuids: ReadonlyArray<string>
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
  /** Null after a success. */
  readonly error:
    | "address_refused"
    | "name_not_resolved"
    | "connection_failed"
    | "tls_failed"
    | "timed_out"
    | "broken_answer"
    | "redirected"
    | "not_2xx"
    | "not_sent"
    | "lost"
    | null
  /** Advice, where the status allows one: a receiver that answers 413 has to take larger bodies. */
  readonly hint?: string
}

/** The webhook of one status, with its attempts. */
export interface Delivery {
  /** The `webhook-id` that the receiver gets. */
  readonly id: string
  readonly status: TaskStatus
  readonly state: "pending" | "delivered" | "failed"
  readonly created_at: string
  /** Null when no further attempt is planned, and while one is in progress. */
  readonly next_attempt_at: string | null
  /** Oldest first. */
  readonly attempts: ReadonlyArray<DeliveryAttempt>
}

/** An uploaded file. It can be placed into `input` as it is. A type alias, so that it is a `JsonObject` too. */
export type UploadedFile = {
  readonly type: "file"
  readonly file: {
    readonly id: string
    readonly name: string
    readonly mime_type: string
    readonly provider_data: { readonly path: string }
  }
}

export interface StorageBase {
  /** Without a trailing slash. */
  readonly url: string
}
