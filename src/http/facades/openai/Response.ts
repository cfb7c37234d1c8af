/** A leg of a task as a response object. Pure: the same leg gives the same object on every node. */
import { Predicate, Schema } from "effect"
import * as Failure from "../../../domain/Failure.ts"
import { type JsonObject, JsonObjects } from "../../../domain/OpaqueJson.ts"
import type { Task, TaskStatus } from "../../../domain/Task.ts"
import { type Timestamp, unixSeconds } from "../../../domain/Timestamp.ts"
import type { FoundLeg } from "../../../services/store/FacadeLegs.ts"
import * as TurnReader from "../TurnReader.ts"
import * as Ids from "./Ids.ts"
import * as Kept from "./Kept.ts"

const decodeOutput = Schema.decodeUnknownSync(Schema.fromJsonString(JsonObjects))

/** The state of a leg. */
export interface Snapshot {
  readonly id: Ids.LegId
  readonly kept: Kept.Kept
  readonly createdAt: Timestamp
  readonly status: TaskStatus | "answered"
  /** JSON of the output of an answered leg. */
  readonly frozen: string | null
  readonly turn: TurnReader.ReadTurn
  readonly toolCalls: NonNullable<Task["pendingToolCalls"]>
  readonly error: string | null
  readonly completedAt: Timestamp | null
}

const emptyTurn = TurnReader.read(null)

export const snapshotOf = (task: Task, leg: number, found: FoundLeg): Snapshot => {
  const isAnswered = leg < found.current
  return {
    id: { uuid: task.uuid, leg },
    kept: Kept.decode(found.request),
    createdAt: found.createdAt,
    status: isAnswered ? "answered" : task.status,
    frozen: found.leg === leg ? found.output : null,
    turn: found.hasTurn && !isAnswered ? TurnReader.read(task.turn) : emptyTurn,
    toolCalls: task.pendingToolCalls ?? [],
    error: task.error,
    completedAt: isAnswered ? null : task.completedAt
  }
}

/** A leg that was created now. */
export const created = (id: Ids.LegId, request: string, createdAt: Timestamp): Snapshot => ({
  id,
  kept: Kept.decode(request),
  createdAt,
  status: "pending",
  frozen: null,
  turn: emptyTurn,
  toolCalls: [],
  error: null,
  completedAt: null
})

export const isActive = ({ status }: Pick<Snapshot, "status">) => status === "pending" || status === "processing"

/** Whether the text of the snapshot contains links to files. */
export const hasLinks = ({ status, turn }: Snapshot) => status === "completed" && turn.files.length > 0

const statuses = {
  pending: "queued",
  processing: "in_progress",
  interrupted: "completed",
  answered: "completed",
  completed: "completed",
  failed: "failed",
  canceled: "cancelled"
} as const

const itemStatuses: Readonly<Record<string, string>> = {
  queued: "in_progress",
  in_progress: "in_progress",
  completed: "completed"
}

const linkText = (name: string) => name.replaceAll(/[[\]\\]/g, "\\$&")

/** JSON of the output of an interrupted leg, which `Kept.fits`: the calls go without a long text. */
export const freeze = (snapshot: Snapshot): string => {
  const output = outputOf(snapshot, "")
  const calls = output.filter(({ type }) => type !== "message")
  const texts = [output, calls].map((items) => JSON.stringify(items))
  return texts.find(Kept.fits) ?? "[]"
}

/** The text of a leg, with links to its files at the end. `storageBase` is the base URL of the storage. */
const textOf = (snapshot: Snapshot, storageBase: string): string => {
  const links = hasLinks(snapshot)
    ? snapshot.turn.files.map(({ name, path }) => `[${linkText(name)}](${storageBase}/${path})`)
    : []
  return [snapshot.turn.text, ...links].filter((part) => part !== "").join("\n\n")
}

const messageOf = (id: Ids.LegId, status: string, text: string) => ({
  id: Ids.messageId(id),
  type: "message",
  status,
  role: "assistant",
  content: [{ type: "output_text", text, annotations: [], logprobs: [] }]
})

/** Items of the output: the message, if there is text, and the calls of an interrupted leg. */
export const outputOf = (snapshot: Snapshot, storageBase: string): ReadonlyArray<JsonObject> => {
  if (snapshot.status === "answered") return snapshot.frozen === null ? [] : decodeOutput(snapshot.frozen)
  const text = textOf(snapshot, storageBase)
  const status = itemStatuses[statuses[snapshot.status]] ?? "incomplete"
  const calls = snapshot.status === "interrupted" ? snapshot.toolCalls : []
  return [
    ...(text === "" ? [] : [messageOf(snapshot.id, status, text)]),
    ...calls.map((call, index) => ({
      id: Ids.callId(snapshot.id, index),
      type: "function_call",
      status: "completed",
      call_id: call.id,
      name: call.name,
      arguments: JSON.stringify(call.arguments)
    }))
  ]
}

/** The text of the message in an output; empty without one. */
export const messageText = (output: ReadonlyArray<JsonObject>): string => {
  const content = output.find(({ type }) => type === "message")?.["content"]
  const part: unknown = Array.isArray(content) ? content[0] : undefined
  return Predicate.hasProperty(part, "text") && Predicate.isString(part.text) ? part.text : ""
}

const constants = {
  store: true,
  tool_choice: "auto",
  parallel_tool_calls: true,
  truncation: "disabled",
  text: { format: { type: "text" } },
  temperature: 1,
  top_p: 1,
  presence_penalty: 0,
  frequency_penalty: 0,
  top_logprobs: 0,
  service_tier: "default",
  access_programs: null,
  incomplete_details: null,
  reasoning: null,
  max_output_tokens: null,
  max_tool_calls: null,
  safety_identifier: null,
  prompt_cache_key: null,
  conversation: null,
  prompt: null,
  user: null
}

const seconds = (moment: Timestamp | null) => moment === null ? null : unixSeconds(moment)

const usageOf = ({ turn: { usage } }: Snapshot) =>
  usage === null ? null : {
    input_tokens: usage.input,
    input_tokens_details: { cached_tokens: 0, cache_write_tokens: 0 },
    output_tokens: usage.output,
    output_tokens_details: { reasoning_tokens: 0 },
    total_tokens: usage.total
  }

const errorOf = ({ error, status }: Snapshot) =>
  status === "failed"
    ? {
      code: error === Failure.insufficientBalance ? "rate_limit_exceeded" : "server_error",
      message: error ?? Failure.processingFailed
    }
    : null

export const responseOf = (snapshot: Snapshot, output: ReadonlyArray<JsonObject>) => {
  const { input: _, ...echoed } = snapshot.kept
  const status: string = statuses[snapshot.status]
  return {
    id: Ids.responseId(snapshot.id),
    object: "response",
    created_at: seconds(snapshot.createdAt),
    completed_at: snapshot.status === "completed" ? seconds(snapshot.completedAt) : null,
    status,
    error: errorOf(snapshot),
    ...constants,
    ...echoed,
    usage: usageOf(snapshot),
    output
  }
}
export type ResponseObject = ReturnType<typeof responseOf>
