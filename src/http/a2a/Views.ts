/** Reads tasks as they are shown. */
import { Effect, Option } from "effect"
import * as OpaqueJson from "../../domain/json/OpaqueJson.ts"
import { RawJson, stringOf } from "../../domain/json/RawJson.ts"
import { array, captured, type Found, merge, object, raw } from "../../domain/json/Shape.ts"
import { Kind } from "../../domain/json/tables.ts"
import type { Writable } from "../../domain/json/Writer.ts"
import { mediaTypeOf } from "../../domain/MediaTypes.ts"
import type { Caller } from "../../domain/Principal.ts"
import * as StoredRequest from "../../domain/StoredRequest.ts"
import { isTerminal } from "../../domain/Task.ts"
import { readCalls } from "../../domain/ToolCall.ts"
import * as TurnParts from "../../domain/TurnParts.ts"
import { isQueued } from "../../domain/WaitingOn.ts"
import { Contexts, type Listed } from "../../services/a2a/Contexts.ts"
import { AssistantBackend, storageBaseOrNone } from "../../services/files/AssistantBackend.ts"
import { type TaskOutline, TaskStore } from "../../services/store/tasks/TaskStore.ts"
import { type Client, type TurnOf, Turns } from "../../services/tasks/Turns.ts"
import * as TurnReader from "../facades/TurnReader.ts"
import type { Message, Part, View } from "./Dialects.ts"
import { A2aSettings } from "./Settings.ts"

/** Bytes. An event has no longer text, since clients refuse long events; and the history as a whole has no longer one. */
export const maxText = 1024 * 1024

/** The parts of a task that a response shows. */
export interface Wanted {
  /** Messages, the last ones; undefined for all. */
  readonly history: number | undefined
  readonly hasArtifacts: boolean
  /** Bytes of a text, or of the history. Instead of a longer text there is its address. */
  readonly maxText: number
  readonly hasRevision: boolean
}

const shape = merge(
  TurnReader.shape,
  object({ messages: array(object({ role: captured, content: merge(raw, TurnParts.output) })) })
)

const roles: Readonly<Record<string, Message["role"]>> = { user: "user", assistant: "agent" }

const textOf = (content: Found | undefined, bytes: Uint8Array): RawJson | undefined =>
  content?.kind === Kind.string
    ? new RawJson(Kind.string, bytes.slice(content.start, content.end))
    : TurnParts.joinTexts(
      TurnParts.membersOf(content).flatMap((part) => {
        const text = part?.field("text")
        return text?.kind === Kind.string ? [bytes.subarray(text.start, text.end)] : []
      })
    )

/** The last messages of a turn that have a text. */
const historyOf = (turn: Found, bytes: Uint8Array): ReadonlyArray<Omit<Message, "id">> => {
  const history: Array<Omit<Message, "id">> = []
  let size = 0
  for (const message of TurnParts.membersOf(turn.field("messages")).toReversed()) {
    const role = roles[message?.field("role")?.text ?? ""]
    const content = message?.field("content")
    size += content === undefined ? 0 : content.end - content.start
    if (size > maxText) break
    const text = role === undefined ? undefined : textOf(content, bytes)
    if (role !== undefined && text !== undefined) history.push({ role, parts: [{ type: "text", text }] })
  }
  return history.toReversed()
}

/** The last messages whose texts together have at most so many characters. */
const fitting = (history: ReadonlyArray<Message>, characters: number) => {
  let left = characters
  const tooMany = history.findLastIndex(({ parts }) => (left -= sizeOf(parts)) < 0)
  return history.slice(tooMany + 1)
}

const sizeOf = (parts: ReadonlyArray<Part>) =>
  parts.reduce((size, part) => size + (part.type === "text" ? stringOf(part.text).length : 0), 0)

const read = (turn: Found, bytes: Uint8Array) => ({
  ...TurnReader.read(turn, bytes),
  history: historyOf(turn, bytes)
})

const nothing = { ...TurnReader.none, history: [] }

const partOf = (item: Writable): ReadonlyArray<Part> => {
  // An item of an input that was accepted.
  const { file, text, voice } = item as {
    readonly text?: string
    readonly file?: { readonly name?: string }
    readonly voice?: { readonly name?: string }
  }
  return text !== undefined
    ? [{ type: "text", text }]
    : [{ type: "text", text: `[${file?.name ?? voice?.name ?? "file"}]` }]
}

/** The parts of the input that a task was made with. */
const partsOf = (input: unknown): ReadonlyArray<Part> =>
  input instanceof RawJson
    ? OpaqueJson.toValue<Array<Writable>>(OpaqueJson.OpaqueJson.make(input.bytes)).flatMap(partOf)
    : []

/** The agent's message: the tools whose results it needs, or the reason why the task ended. */
const messageOf = (task: TaskOutline, maxBytes: number) =>
  Effect.gen(function*() {
    const id = `${task.uuid}-${task.revision}`
    const say = (...parts: ReadonlyArray<Part>): Message => ({ id, role: "agent", parts })
    if (task.status !== "interrupted") {
      return task.error === null ? undefined : say({ type: "text", text: task.error })
    }
    const names = (yield* readCalls(task.pendingToolCalls)).slice(0, 32).map(({ name }) => name.slice(0, 64)).join(", ")
    const bytes = OpaqueJson.encode(task.pendingToolCalls ?? "[]")
    const way = bytes.length <= maxBytes ? "" : ` GET /api/tasks/${task.uuid} returns the calls.`
    return say(
      { type: "text", text: `The assistant needs the results of ${names}.${way}` },
      ...(way === "" ? [{ type: "data" as const, data: { tool_calls: new RawJson(Kind.array, bytes) } }] : [])
    )
  })

/** The message that made a task. */
const makeRequested = Effect.map(
  TaskStore,
  (reads) =>
    Effect.fnUntraced(function*({ uuid }: TaskOutline, messageId: string | null) {
      const stored = Option.getOrUndefined(yield* reads.storedRequest(uuid))
      if (stored === undefined) return []
      const parts = partsOf((yield* StoredRequest.read(stored.request)).input)
      return parts.length === 0 ? [] : [{ id: messageId ?? `${uuid}-input`, role: "user" as const, parts }]
    })
)

export const make = Effect.gen(function*() {
  const { publicUrl } = yield* A2aSettings
  const backend = yield* AssistantBackend
  const contexts = yield* Contexts
  const requested = yield* makeRequested
  const turns = yield* Turns
  const readTurnOf = (task: TurnOf) => Effect.map(turns.read(task, shape, read), (turn) => turn ?? nothing)
  const share = yield* turns.share((version) => readTurnOf({ ...version, turn: null }))

  const artifactOf = Effect.fnUntraced(
    function*({ token }: Caller, uuid: string, { files, text }: TurnReader.ReadTurn, maxText: number) {
      const storageBase = files.length === 0 ? "" : yield* storageBaseOrNone(backend, token)
      const first: ReadonlyArray<Part> = text === undefined
        ? []
        : text.bytes.length <= maxText
        ? [{ type: "text", text }]
        : [{ type: "file", url: `${publicUrl}/api/tasks/${uuid}`, name: undefined, mediaType: "application/json" }]
      return [
        ...first,
        ...files.map(({ name, path }): Part => ({
          type: "file",
          url: TurnReader.addressOf(storageBase, path),
          name,
          mediaType: mediaTypeOf(name) ?? "application/octet-stream"
        }))
      ]
    }
  )

  /** A large turn is shared with others who read it at the same time, until the response has been sent. */
  return Effect.fnUntraced(function*(
    client: Client,
    caller: Caller,
    task: TaskOutline,
    wanted: Wanted,
    listed?: Listed
  ) {
    const { contextId, messageId, changedAt } = listed?.revision === task.revision
      ? listed
      : yield* contexts.find(task.uuid, task.revision)
    const hasHistory = wanted.history !== 0
    const isRead = wanted.hasArtifacts || hasHistory && isTerminal(task.status)
    const turn = !isRead
      ? nothing
      : task.turn === null && task.turnBytes > 0
      ? yield* share(client, task)
      : yield* readTurnOf(task)
    const told = isTerminal(task.status)
      ? turn.history.map((message, index): Message => ({ ...message, id: `${task.uuid}-message-${index}` }))
      : []
    const history = !hasHistory ? [] : told.length > 0 ? told : yield* requested(task, messageId)
    const view: View = {
      uuid: task.uuid,
      contextId: contextId ?? task.uuid,
      status: isQueued(task) ? "pending" : task.status,
      changedAt: changedAt ?? task.createdAt,
      message: yield* messageOf(task, wanted.maxText),
      artifact: wanted.hasArtifacts ? yield* artifactOf(caller, task.uuid, turn, wanted.maxText) : undefined,
      history: fitting(wanted.history === undefined ? history : history.slice(-wanted.history), wanted.maxText),
      metadata: wanted.hasRevision ? { revision: task.revision } : undefined
    }
    return view
  })
})
