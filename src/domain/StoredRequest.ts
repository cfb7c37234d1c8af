/**
 * The request of a task, as it is stored: the `RunRequest`, or what makes it from requests and turns of earlier tasks, so that none of
 * these is copied. It is put together at each dispatch.
 */
import { Effect, Record, Schema, Struct } from "effect"
import { encode, fromValue, type OpaqueJson, textOf, toText } from "./json/OpaqueJson.ts"
import * as RawJson from "./json/RawJson.ts"
import { shapeOf } from "./json/Shape.ts"
import type { Writable } from "./json/Writer.ts"
import { TaskId } from "./Task.ts"
import { type KeptFields, RunRequest, shownFieldsOf } from "./TaskRequest.ts"

/** A stored request, without secrets. */
export interface StoredRequest extends KeptFields {
  readonly request: OpaqueJson
}

/** The fields of a stored request. Its references come first: `refersToOthers` looks for them there. */
const Fields = Schema.Struct({
  /** The task whose request has the fields that are missing here. It does not repeat another one itself. */
  repeats: Schema.optional(TaskId),
  /** The task whose messages come in front of `turns`. */
  continues: Schema.optional(TaskId),
  /** A message in front of those. */
  instructions: Schema.optional(RawJson.Any),
  ...Record.map(RunRequest.fields, () => Schema.optional(RawJson.Any)),
  turns: Schema.optional(RawJson.Objects)
})
export type Fields = typeof Fields.Type

const decode = Schema.decodeUnknownSync(Fields)
const shape = shapeOf(Fields)

export const read = (request: OpaqueJson): Effect.Effect<Fields> =>
  Effect.map(RawJson.read(shape, encode(request)), decode)

const references = ["{\"repeats\":", "{\"continues\":"]
const longest = Math.max(...references.map(({ length }) => length))

/** Whether the `RunRequest` has to be put together. */
export const refersToOthers = (request: OpaqueJson): boolean => {
  const start = typeof request === "string" ? request : textOf(request.subarray(0, longest))
  return references.some((reference) => start.startsWith(reference))
}

/** The stored request of a task that repeats another one, with some fields replaced. */
export const repeat = (
  uuid: TaskId,
  stored: Fields,
  replaced: { readonly [field in keyof RunRequest]?: Writable | undefined }
): OpaqueJson => fromValue(stored.repeats === undefined ? { repeats: uuid, ...replaced } : { ...stored, ...replaced })

/** The request that `repeat` stands for. New turns replace the whole conversation. */
export const replace = (base: Fields, replaced: Fields): Fields => ({
  ...(replaced.turns === undefined ? base : Struct.omit(base, ["continues", "instructions"])),
  ...Struct.omit(replaced, ["repeats"])
})

/** The fields of the `RunRequest`; `messages` are those of the continued task. */
const runFieldsOf = ({ instructions, turns, ...fields }: Fields, messages: ReadonlyArray<Writable>) => ({
  ...Struct.pick(fields, ["assistant_id", "input"]),
  turns: [...(instructions === undefined ? [] : [instructions]), ...messages, ...RawJson.itemsOf(turns ?? [])],
  ...Struct.omit(fields, ["assistant_id", "input", "continues", "repeats"])
})

export const toRunRequest = (fields: Fields, messages: ReadonlyArray<Writable>): OpaqueJson =>
  fromValue(runFieldsOf(fields, messages))

/** The field `request` of `?include=request`, as JSON text. The messages of a continued task are not repeated: it is named. */
export const describe = (fields: Fields, kept: KeptFields): string =>
  toText(
    fromValue({
      options: null,
      ...runFieldsOf(fields, []),
      continues: fields.continues ?? null,
      ...shownFieldsOf(kept)
    })
  )
