/** The stored request of a task, and the body of `POST /api/tasks/{uuid}/rerun`, which replaces fields of it. */
import { Record, Schema, Struct } from "effect"
import type { Metadata } from "./Metadata.ts"
import { fromText, JsonObject, type OpaqueJson, toText } from "./OpaqueJson.ts"
import { type CreateTask, CreateTaskBody, runFieldsOf, taskFieldsOf } from "./TaskRequest.ts"

/** A stored request, without secrets. */
export interface StoredRequest {
  readonly callbackUrl: string | null
  /** Seconds. */
  readonly maxExecutionTime: number
  readonly metadata: Metadata | null
  /** The `RunRequest`. */
  readonly request: OpaqueJson
}

const { assistant_id, input, ...optional } = CreateTaskBody.fields

/** Every field of `CreateTaskBody`, each optional. */
export const RerunBody = Schema.Struct({
  assistant_id: Schema.optionalKey(assistant_id),
  input: Schema.optionalKey(input),
  ...optional
}).annotate({
  identifier: "RerunTask",
  description:
    "Fields that replace those of the original request; `null` removes an optional one. `callback_secret` is never "
    + "copied: pass it again for signed webhooks."
})

/** The replaced fields. Those of the `RunRequest` are JSON texts, so that their size costs little. */
export interface Overrides {
  readonly task: Partial<Omit<CreateTask, "request">>
  readonly request: Readonly<Record<string, string>>
}

export const toOverrides = (body: typeof RerunBody.Type): Overrides => {
  const isGiven = (field: keyof CreateTaskBody) => body[field] !== undefined
  const [task, request] = [taskFieldsOf(body), runFieldsOf(body)]
  return {
    task: Struct.pick(task, Struct.keys(task).filter(isGiven)),
    request: Record.map(Struct.pick(request, Struct.keys(request).filter(isGiven)), (value) => JSON.stringify(value))
  }
}

const decodeFields = Schema.decodeUnknownSync(Schema.fromJsonString(JsonObject))

/** Replaces fields of a JSON object. Only the object is parsed, which is at most `Limits.keptRequestBytes` long. */
const replaceFields = (object: OpaqueJson, fields: Overrides["request"]): OpaqueJson => {
  if (Record.isEmptyRecord(fields)) return object
  const all = { ...Record.map(decodeFields(toText(object)), (value) => JSON.stringify(value)), ...fields }
  return fromText(`{${Object.entries(all).map(([name, text]) => `"${name}":${text}`).join(",")}}`)
}

/** The request of the new task. */
export const override = (stored: StoredRequest, { request, task }: Overrides): CreateTask => ({
  callback_url: stored.callbackUrl,
  callback_secret: null,
  max_execution_time: stored.maxExecutionTime,
  metadata: stored.metadata,
  ...task,
  request: replaceFields(stored.request, request)
})

/** The field `request` of `?include=request`, as JSON text. */
export const describe = ({ callbackUrl, maxExecutionTime, metadata, request }: StoredRequest): string => {
  const fields = { max_execution_time: maxExecutionTime, callback_url: callbackUrl, metadata: metadata ?? {} }
  return `${toText(request).slice(0, -1)},${JSON.stringify(fields).slice(1)}`
}
