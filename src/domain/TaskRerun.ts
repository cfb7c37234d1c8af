/** The body of `POST /api/tasks/{uuid}/rerun`, which replaces fields of a stored request. */
import { Schema, Struct } from "effect"
import type { Writable } from "./json/Writer.ts"
import {
  type CreateTask,
  CreateTaskBody,
  givenFieldsOf,
  internalPriority,
  runFieldsOf,
  type RunRequest
} from "./TaskRequest.ts"

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

/** The same on behalf of a user, by an internal caller. */
export const InternalRerunBody = Schema.Struct({ ...RerunBody.fields, priority: internalPriority })

/** The replaced fields. */
export interface Overrides {
  readonly task: Partial<Omit<CreateTask, "request">>
  readonly request: { readonly [field in keyof RunRequest]?: Writable | undefined }
}

export const toOverrides = (body: typeof RerunBody.Type): Overrides => {
  const request = runFieldsOf(body)
  return {
    task: givenFieldsOf(body),
    request: Struct.pick(request, Struct.keys(request).filter((field) => body[field] !== undefined))
  }
}
