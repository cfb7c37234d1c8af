/** A leg of a task as a response object. Pure: the same leg gives the same object on every node. */
import { Schema } from "effect"
import * as Failure from "../../domain/Failure.ts"
import * as OpaqueJson from "../../domain/json/OpaqueJson.ts"
import * as RawJson from "../../domain/json/RawJson.ts"
import { shapeOf } from "../../domain/json/Shape.ts"
import type { Writable } from "../../domain/json/Writer.ts"
import type { Task, TaskStatus } from "../../domain/Task.ts"
import { type Timestamp, unixSeconds } from "../../domain/Timestamp.ts"
import type { PassedCall } from "../../domain/ToolCall.ts"
import * as Usage from "../../domain/Usage.ts"
import { isQueued } from "../../domain/WaitingOn.ts"
import type { FoundLeg } from "../../services/facades/FacadeLegs.ts"
import * as TurnReader from "../facades/TurnReader.ts"
import * as Ids from "./Ids.ts"
import * as Kept from "./Kept.ts"

/** The state of a leg. */
export interface Snapshot {
  readonly id: Ids.LegId
  readonly kept: Kept.Kept
  readonly createdAt: Timestamp
  readonly status: TaskStatus | "answered"
  /** JSON of the output of an answered leg. */
  readonly frozen: string | null
  /** True if the task has the turn of this leg. */
  readonly hasTurn: boolean
  /** The turn, if it was read. */
  readonly turn: TurnReader.ReadTurn
  /** The use of the task at the end of an answered leg, and before the leg. */
  readonly usage: Usage.Tokens | null
  readonly usageBefore: Usage.Tokens | null
  readonly toolCalls: ReadonlyArray<PassedCall>
  readonly error: string | null
  readonly completedAt: Timestamp | null
}

/** Without the turn. */
export const snapshotOf = (
  task: Omit<Task, "turn">,
  toolCalls: ReadonlyArray<PassedCall>,
  leg: number,
  found: FoundLeg
): Snapshot => {
  const isAnswered = leg < found.current
  return {
    id: { uuid: task.uuid, leg },
    kept: Kept.decode(found.request),
    createdAt: found.createdAt,
    // A resumed run may wait in the queue too.
    status: isAnswered ? "answered" : isQueued(task) ? "pending" : task.status,
    frozen: found.leg === leg ? found.output : null,
    // The leg is read after the task, which may still have the turn of the previous leg.
    hasTurn: found.turnSince !== null && found.turnSince <= task.revision && !isAnswered,
    turn: TurnReader.none,
    usage: found.leg === leg ? found.usage : null,
    usageBefore: found.usageBefore,
    toolCalls,
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
  hasTurn: false,
  turn: TurnReader.none,
  usage: null,
  usageBefore: null,
  toolCalls: [],
  error: null,
  completedAt: null
})

/** True if the text of the snapshot contains links to files. */
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

/** An item of the output. */
export type Item =
  | { readonly type: "message"; readonly id: string; readonly status: string; readonly text: RawJson.RawJson }
  | {
    readonly type: "function_call"
    readonly id: string
    readonly callId: string
    readonly name: string
    readonly arguments: string
  }

/** The content of a message. */
export const part = (text: Writable) => ({ type: "output_text", text, annotations: [], logprobs: [] })

export const toJson = (item: Item) =>
  item.type === "message"
    ? { id: item.id, type: item.type, status: item.status, role: "assistant", content: [part(item.text)] }
    : {
      id: item.id,
      type: item.type,
      status: "completed",
      call_id: item.callId,
      name: item.name,
      arguments: item.arguments
    }

/** An item as `toJson` writes it. */
const Frozen = Schema.Array(Schema.Union([
  Schema.Struct({
    id: Schema.String,
    type: Schema.Literal("message"),
    status: Schema.String,
    content: Schema.NonEmptyArray(Schema.Struct({ text: RawJson.Text }))
  }),
  Schema.Struct({
    id: Schema.String,
    type: Schema.Literal("function_call"),
    call_id: Schema.String,
    name: Schema.String,
    arguments: Schema.String
  })
]))
const frozenShape = shapeOf(Frozen)
const decodeFrozen = Schema.decodeUnknownSync(Frozen)

const thaw = (json: string): ReadonlyArray<Item> =>
  decodeFrozen(RawJson.readValid(frozenShape, OpaqueJson.encode(json))).map((item): Item => {
    if (item.type === "function_call") return { ...item, callId: item.call_id }
    const { content: [{ text }], id, status } = item
    return { type: "message", id, status, text: RawJson.ofText(text) }
  })

/** JSON of the output of an interrupted leg, which `Kept.fits`: the calls go without a long text. */
export const freeze = (snapshot: Snapshot): string => {
  const output = outputOf(snapshot, "")
  const calls = output.filter(({ type }) => type !== "message")
  const texts = [output, calls].map((items) => OpaqueJson.toText(OpaqueJson.fromValue(items.map(toJson))))
  return texts.find(Kept.fits) ?? "[]"
}

/**
 * Items of the output: the message, if there is text, and the calls of an interrupted leg. `storageBase` is the base URL of
 * the storage.
 */
export const outputOf = (snapshot: Snapshot, storageBase: string): ReadonlyArray<Item> => {
  if (snapshot.status === "answered") return snapshot.frozen === null ? [] : thaw(snapshot.frozen)
  const text = hasLinks(snapshot) ? TurnReader.linkedText(snapshot.turn, storageBase) : snapshot.turn.text
  const status = itemStatuses[statuses[snapshot.status]] ?? "incomplete"
  const calls = snapshot.status === "interrupted" ? snapshot.toolCalls : []
  return [
    ...(text === undefined ? [] : [{ type: "message" as const, id: Ids.messageId(snapshot.id), status, text }]),
    ...calls.map((call, index) => ({
      type: "function_call" as const,
      id: Ids.callId(snapshot.id, index),
      callId: call.id,
      name: call.name,
      arguments: OpaqueJson.toText(OpaqueJson.fromValue(call.arguments))
    }))
  ]
}

/** The text of the message in an output; undefined without one. */
export const messageText = (output: ReadonlyArray<Item>): RawJson.RawJson | undefined => {
  const [message] = output.flatMap((item) => item.type === "message" ? [item] : [])
  return message?.text
}

const constants = {
  tool_choice: "auto",
  parallel_tool_calls: true,
  truncation: "disabled",
  temperature: 1,
  top_p: 1,
  presence_penalty: 0,
  frequency_penalty: 0,
  top_logprobs: 0,
  service_tier: "default",
  access_programs: null,
  incomplete_details: null,
  reasoning: null,
  max_tool_calls: null,
  safety_identifier: null,
  prompt_cache_key: null,
  conversation: null,
  prompt: null,
  user: null
}

const seconds = (moment: Timestamp | null) => moment === null ? null : unixSeconds(moment)

/** The use of the leg itself, so that an app may add up the legs of a task. */
const usageOf = ({ status, turn, usage, usageBefore }: Snapshot) => {
  const reported = status === "answered" ? usage : turn.usage
  if (reported === null) return null
  const { cached, input, output, reasoning, total } = Usage.difference(reported, usageBefore ?? Usage.none)
  return {
    input_tokens: input,
    input_tokens_details: { cached_tokens: cached, cache_write_tokens: 0 },
    output_tokens: output,
    output_tokens_details: { reasoning_tokens: reasoning },
    total_tokens: total
  }
}

const errorOf = ({ error, status }: Snapshot) =>
  status === "failed"
    ? {
      code: error === Failure.insufficientBalance ? "rate_limit_exceeded" : "server_error",
      message: error ?? Failure.processingFailed
    }
    : null

/** A response: its JSON, and its output as items. */
export const responseOf = (snapshot: Snapshot, output: ReadonlyArray<Item>) => {
  const { input: _, ...echoed } = snapshot.kept
  const status: string = statuses[snapshot.status]
  return {
    status,
    items: output,
    json: {
      id: Ids.responseId(snapshot.id),
      object: "response",
      created_at: seconds(snapshot.createdAt),
      completed_at: snapshot.status === "completed" ? seconds(snapshot.completedAt) : null,
      status,
      error: errorOf(snapshot),
      ...constants,
      ...echoed,
      usage: usageOf(snapshot),
      output: output.map(toJson)
    }
  }
}
export type RenderedResponse = ReturnType<typeof responseOf>
