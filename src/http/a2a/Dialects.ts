/** The two versions of the protocol: the same tasks, messages and events with other names. */
import { Struct } from "effect"
import type { RawJson } from "../../domain/json/RawJson.ts"
import type { Writable } from "../../domain/json/Writer.ts"
import type { TaskStatus } from "../../domain/Task.ts"
import { format, type Timestamp } from "../../domain/Timestamp.ts"

type Object = { readonly [field: string]: Writable | undefined }

export type Part =
  | { readonly type: "text"; readonly text: string | RawJson }
  | { readonly type: "file"; readonly url: string; readonly name: string | undefined; readonly mediaType: string }
  | { readonly type: "data"; readonly data: Writable }

export interface Message {
  readonly id: string
  readonly role: "user" | "agent"
  readonly parts: ReadonlyArray<Part>
}

/** A task as it is shown. */
export interface View {
  readonly uuid: string
  readonly contextId: string
  readonly status: TaskStatus
  readonly changedAt: Timestamp
  readonly message: Message | undefined
  /** Undefined leaves them out. */
  readonly artifact: ReadonlyArray<Part> | undefined
  readonly history: ReadonlyArray<Message>
  readonly metadata: Object | undefined
}

/** An event of a task: of its status, or of its artifact. */
export type Update =
  & Pick<View, "uuid" | "contextId" | "metadata">
  & (
    | ({ readonly type: "status" } & Pick<View, "status" | "changedAt" | "message">)
    | { readonly type: "artifact"; readonly parts: ReadonlyArray<Part>; readonly append: boolean }
  )

/** The names in which the versions differ. */
interface Names {
  readonly states: Readonly<Record<TaskStatus, string>>
  readonly role: (role: Message["role"]) => string
  readonly part: (part: Part) => Writable
  /** The object with the name of its kind, where the version has it inside. */
  readonly tagged: (kind: string, object: Object) => Object
  /** The same for a result and for an event of a stream, which version 1.0 puts into an object with one field. */
  readonly wrapped: (field: string, object: Object) => Object
  readonly isFinal: (status: TaskStatus) => boolean | undefined
}

/** Milliseconds, without the digits of microseconds. */
const timestamp = (moment: Timestamp) => `${format(moment).slice(0, -4)}Z`

const makeDialect = ({ isFinal, part, role, states, tagged, wrapped }: Names) => {
  const messageOf = (view: Pick<View, "uuid" | "contextId">, { id, parts, ...message }: Message) =>
    tagged("message", {
      messageId: id,
      contextId: view.contextId,
      taskId: view.uuid,
      role: role(message.role),
      parts: parts.map(part)
    })
  const statusOf = (view: Pick<View, "uuid" | "contextId" | "status" | "changedAt" | "message">) => ({
    state: states[view.status],
    message: view.message && messageOf(view, view.message),
    timestamp: timestamp(view.changedAt)
  })
  const artifactOf = (parts: ReadonlyArray<Part>) => ({ artifactId: "output", parts: parts.map(part) })
  const task = (view: View) => {
    const { artifact, contextId, history, metadata, uuid } = view
    return tagged("task", {
      id: uuid,
      contextId,
      status: statusOf(view),
      artifacts: artifact && (artifact.length === 0 ? [] : [artifactOf(artifact)]),
      history: history.length === 0 ? undefined : history.map((message) => messageOf(view, message)),
      metadata
    })
  }
  const update = (event: Update) => {
    const ids = { taskId: event.uuid, contextId: event.contextId, metadata: event.metadata }
    return event.type === "status"
      ? wrapped(
        "statusUpdate",
        tagged("status-update", { ...ids, status: statusOf(event), final: isFinal(event.status) })
      )
      : wrapped(
        "artifactUpdate",
        tagged("artifact-update", { ...ids, artifact: artifactOf(event.parts), append: event.append })
      )
  }
  return { task, update, wrapped, statusOfState: (state: string) => byState(states, state) }
}
export type Dialect = ReturnType<typeof makeDialect>

const byState = (states: Names["states"], state: string) =>
  Struct.keys(states).find((status) => states[status] === state)

export const v1 = makeDialect({
  states: {
    pending: "TASK_STATE_SUBMITTED",
    processing: "TASK_STATE_WORKING",
    interrupted: "TASK_STATE_INPUT_REQUIRED",
    completed: "TASK_STATE_COMPLETED",
    failed: "TASK_STATE_FAILED",
    canceled: "TASK_STATE_CANCELED"
  },
  role: (role) => role === "user" ? "ROLE_USER" : "ROLE_AGENT",
  part: (part) => {
    if (part.type === "text") return { text: part.text, mediaType: "text/plain" }
    if (part.type === "data") return { data: part.data, mediaType: "application/json" }
    return { url: part.url, filename: part.name, mediaType: part.mediaType }
  },
  tagged: (_, object) => object,
  wrapped: (field, object) => ({ [field]: object }),
  isFinal: () => undefined
})

export const v03 = makeDialect({
  states: {
    pending: "submitted",
    processing: "working",
    interrupted: "input-required",
    completed: "completed",
    failed: "failed",
    canceled: "canceled"
  },
  role: (role) => role,
  part: (part) => {
    if (part.type === "text") return { kind: "text", text: part.text }
    if (part.type === "data") return { kind: "data", data: part.data }
    return { kind: "file", file: { uri: part.url, name: part.name, mimeType: part.mediaType } }
  },
  tagged: (kind, object) => ({ kind, ...object }),
  wrapped: (_, object) => object,
  isFinal: (status) => status !== "pending" && status !== "processing"
})
