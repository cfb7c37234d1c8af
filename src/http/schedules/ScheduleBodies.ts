/** Decodes bodies with a schedule, the task in them by the rules of `POST /api/tasks`. */
import { Effect, Predicate, Record, Result, Schema, Struct } from "effect"
import { isStorable } from "../../domain/Fields.ts"
import { encode, fromValue, toText } from "../../domain/json/OpaqueJson.ts"
import * as RawJson from "../../domain/json/RawJson.ts"
import * as JsonShape from "../../domain/json/Shape.ts"
import { CreateTaskBody, toCreateTask } from "../../domain/TaskRequest.ts"
import { parse, type Timestamp } from "../../domain/Timestamp.ts"
import { defaults, type Definition, limits, State } from "../../services/schedules/Schedule.ts"
import type { Changes, Draft, TaskTemplate } from "../../services/schedules/ScheduleDrafts.ts"
import { TaskBodies, TaskBodyRefused } from "../../services/schedules/TaskBodies.ts"
import { invalid, type ValidationFailed } from "../contract/Errors.ts"
import { validationFailed } from "../handlers/body/BodyErrors.ts"
import { type BodyKind, decodeBytes, kind } from "../handlers/body/JsonBody.ts"
import { EmptyBody, PauseBody, PreviewBody, ScheduleBody, UpdateBody } from "./ScheduleSchemas.ts"

const maxBytes = limits.bodyBytes

const { callback_secret: secretField, ...taskFields } = CreateTaskBody.fields
const templateShape = JsonShape.shapeOf(
  Schema.Struct({
    ...Record.fromIterableWith(Struct.keys(taskFields), (name) => [name, Schema.optional(RawJson.Any)]),
    callback_secret: secretField
  })
)

/** The fields of a task as their bytes, and the secret apart. The body was decoded before, so it is valid. */
const templateOf = (bytes: Uint8Array): TaskTemplate => {
  const { callback_secret: secret, ...fields } = RawJson.readValid(templateShape, bytes) as
    & Readonly<Record<string, RawJson.RawJson | null>>
    & {
      readonly callback_secret?: unknown
    }
  return {
    body: toText(fromValue(fields)),
    secret: Predicate.isString(secret) && secret !== "" ? secret : null
  }
}

/** The fields of the definition that a body has; null stands for the default. */
const given = (body: UpdateBody): Partial<Definition> => {
  const moment = (text: string | null | undefined): Timestamp | null | undefined =>
    text === undefined || text === null ? text : parse(text)
  const or = <A>(value: A | null | undefined, fallback: A): A | undefined => value === null ? fallback : value
  const fields: { readonly [K in keyof Definition]: Definition[K] | undefined } = {
    type: body.type,
    name: body.name,
    cron: body.cron,
    timezone: or(body.timezone, defaults.timezone),
    runAt: moment(body.run_at),
    delay: body.delay,
    startsAt: moment(body.starts_at),
    endsAt: moment(body.ends_at),
    spread: or(body.spread, defaults.spread),
    overlap: or(body.overlap, defaults.overlap),
    catchupWindow: or(body.catchup_window, defaults.catchupWindow),
    pauseAfterFailures: body.pause_after_failures
  }
  // The fields that are left are defined.
  return Struct.omit(fields, Struct.keys(fields).filter((name) => fields[name] === undefined)) as Partial<Definition>
}

const inTask = (field: string) => field === "body" ? "task" : `task.${field}`

const scheduledTask = kind(CreateTaskBody, {
  to: (body) => toCreateTask({ ...body, priority: body.priority ?? limits.priority })
})

/** Decodes the task of a body too, so that all errors are reported together. */
const withTask = <A extends object, B>(
  schema: Schema.Decoder<A>,
  to: (body: A, task: TaskTemplate | undefined) => B
): BodyKind<B> => {
  const base = kind(schema, { maxBytes, to: (body) => body })
  return {
    ...base,
    whenEmpty: undefined,
    decode: Effect.fnUntraced(function*(found, bytes) {
      const body = yield* Effect.result(base.decode(found, bytes))
      const task = found.field("task")
      const taskBytes = task === undefined ? undefined : bytes.subarray(task.start, task.end)
      const checked = taskBytes === undefined || taskBytes[0] !== 0x7b
        ? undefined
        : yield* Effect.result(decodeBytes(scheduledTask, taskBytes))
      const ofTask = checked !== undefined && Result.isFailure(checked)
        ? Record.mapKeys(checked.failure.errors, inTask)
        : {}
      if (Result.isFailure(body)) return yield* validationFailed({ ...body.failure.errors, ...ofTask })
      if (Object.keys(ofTask).length > 0) return yield* validationFailed(ofTask)
      return to(body.success, taskBytes === undefined || checked === undefined ? undefined : templateOf(taskBytes))
    })
  }
}

const noTask: TaskTemplate = { body: "{}", secret: null }

export const create = withTask(
  ScheduleBody,
  (body, task = noTask): Draft => ({ key: body.key ?? null, definition: { ...defaults, ...given(body) }, task })
)

export const update = withTask(UpdateBody, (body, task): Changes => ({
  definition: given(body),
  ...(body.key === undefined ? {} : { key: body.key }),
  ...(task === undefined ? {} : { task })
}))

const isKey = Schema.is(ScheduleBody.fields.key)

/** Why the key of a path is refused. */
export const problemOfPut = (draft: Draft, key: string): string | undefined => {
  if (!isKey(key) || !isStorable(key)) return `Expected 1 to ${limits.key} characters without NUL`
  return draft.key === null || draft.key === key ? undefined : "Must be the key of the path, or absent"
}

const isState = Schema.is(State)

export const statesOf = (given: ReadonlyArray<string>): Result.Result<ReadonlyArray<State>, ValidationFailed> =>
  given.every((text): text is State => isState(text))
    ? Result.succeed([...new Set(given)])
    : Result.fail(invalid("state", `Expected one or more of ${State.literals.join(", ")}`))

export const pause = kind(PauseBody, { maxBytes, whenEmpty: {}, to: ({ reason }) => reason ?? null })

export const empty = kind(EmptyBody, { maxBytes, whenEmpty: {}, to: () => undefined })

export const preview = kind(PreviewBody, {
  maxBytes,
  to: ({ after, count, cron, timezone }) => ({
    cron,
    timezone: timezone ?? defaults.timezone,
    count: count ?? limits.upcoming,
    after: after === undefined || after === null ? undefined : parse(after)
  })
})

const firstMessage = ({ errors }: ValidationFailed) => {
  const [field = "body", messages] = Object.entries(errors)[0] ?? []
  return `The task is not valid any more: ${inTask(field)}: ${messages?.[0] ?? "is invalid"}`
}

export const taskBodies = TaskBodies.of({
  decode: (body) =>
    Effect.mapError(
      decodeBytes(scheduledTask, encode(body)),
      (error) => new TaskBodyRefused({ message: firstMessage(error) })
    )
})
