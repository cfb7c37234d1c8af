/**
 * The places where extensions change the core: each is a reference that `runtime` fills from the list of extensions, and empty without one. The
 * core names no extension; `runtime/Extension.ts` is the other end.
 */
import { Array as Arr, Context, Effect, Option } from "effect"
import type { OpaqueJson } from "../domain/json/OpaqueJson.ts"
import type { Found, Shape } from "../domain/json/Shape.ts"
import type { Revocation } from "../domain/Revocation.ts"
import type { StoreUnavailable } from "../domain/StoreUnavailable.ts"
import type { TaskId, TaskStatus } from "../domain/Task.ts"
import type { CreateRefused } from "../domain/TaskErrors.ts"
import type { Timestamp } from "../domain/Timestamp.ts"

/** Says why a user may create no task. It is called for each create, so it only looks up what is known. */
export type CreateLimit = (sub: string) => CreateRefused | undefined

/** The first that refuses counts. */
export const CreateLimits = Context.Reference<ReadonlyArray<CreateLimit>>("async-task-service/services/CreateLimits", {
  defaultValue: () => []
})

/** Run when the metrics are read, at most every 30 s: what brings an extension's gauges up to date, or begins to. */
export const GaugeHooks = Context.Reference<ReadonlyArray<Effect.Effect<void>>>(
  "async-task-service/services/GaugeHooks",
  { defaultValue: () => [] }
)

/**
 * A value that an extension reads from the turn of an event. It is read once, where the event is decoded, and the core stores it with it
 * (`task_events.report`) without knowing what it is.
 */
export interface TurnReport {
  /** The parts of a turn that `read` needs. */
  readonly shape: Shape
  /** Small JSON that Postgres can store; null for none. */
  readonly read: (turn: Found | undefined, bytes: Uint8Array) => string | null
}

/** Undefined without an extension that reads turns. */
export const TurnReport = Context.Reference<TurnReport | undefined>("async-task-service/services/TurnReport", {
  defaultValue: () => undefined
})

/**
 * Facts that extensions know of tasks. Each has a name: as a parameter of lists it selects tasks, and as a value of `include` it adds a field to a
 * task.
 */
export interface TaskLink {
  readonly name: string
  /** How its parameter selects tasks; absent without one. */
  readonly selection?: {
    /** Says what a value of the parameter must be. */
    readonly expected: string
    readonly isValue: (text: string) => boolean
    /** The tasks of a user, or of all users (null), with a value of the parameter: a bounded number. */
    readonly select: (sub: string | null, value: string) => Effect.Effect<ReadonlyArray<TaskId>, StoreUnavailable>
  }
  /** The field of a task; null without one. */
  readonly describe: (
    uuid: TaskId
  ) => Effect.Effect<{ readonly [field: string]: string | number | boolean | null } | null, StoreUnavailable>
}

export const TaskLinks = Context.Reference<ReadonlyArray<TaskLink>>("async-task-service/services/TaskLinks", {
  defaultValue: () => []
})

/** A table with rows of users, by which all that is kept of a user is exported and erased. */
export interface UserTable {
  readonly table: string
  /** The rows of the user `$1`, as a condition. */
  readonly isOfUser: string
  /**
   * The lines of the export, one for each row: their `type`, the columns of the primary key with their types, in whose order rows are read,
   * and the SQL of each field, without secrets. Null: the table has nothing of the user that another line lacks.
   */
  readonly exported: {
    readonly type: string
    readonly key: Readonly<Record<string, string>>
    readonly fields: Readonly<Record<string, string>>
  } | null
}

/**
 * The data of users. Each table that has a user or a task in a column is in one of the two lists, which a test compares with the schema: a
 * foreign key that cascades erases rows with their task, but exports none.
 */
export interface UserData {
  /** In the order in which they are erased. */
  readonly tables: ReadonlyArray<UserTable>
  /** Tables that are neither exported nor erased here, with the reason: `{ bot_drafts: "go into the task's request" }`. */
  readonly others?: Readonly<Record<string, string>>
  /** The fields of a user that operators see: SQL of a value of JSON about the user `$1`, by field. */
  readonly summary?: Readonly<Record<string, string>>
}

export const UserDataOfExtensions = Context.Reference<ReadonlyArray<UserData>>(
  "async-task-service/services/UserDataOfExtensions",
  { defaultValue: () => [] }
)

interface Statement {
  readonly text: string
  readonly values: ReadonlyArray<unknown>
}

/** Statements of extensions in the transaction of a revocation. `author` is a short text of the caller, if it is known. */
export type RevocationHook = (revocation: Revocation, author: string | undefined) => ReadonlyArray<Statement>

export const RevocationHooks = Context.Reference<ReadonlyArray<RevocationHook>>(
  "async-task-service/services/RevocationHooks",
  { defaultValue: () => [] }
)

/** The change that a webhook reports. */
export interface ReportedChange {
  readonly uuid: TaskId
  readonly revision: number
  readonly status: TaskStatus
  readonly happenedAt: Timestamp
}

/** Returns the body of each webhook. A body depends on its change only, so that each attempt has the same bytes. */
export type CallbackFormat = (
  changes: ReadonlyArray<ReportedChange>
) => Effect.Effect<ReadonlyArray<OpaqueJson>, StoreUnavailable>

/** The formats of webhooks by name. A task has the name of its format, or null: the body is the task itself. */
export const CallbackFormats = Context.Reference<Readonly<Record<string, CallbackFormat>>>(
  "async-task-service/services/CallbackFormats",
  { defaultValue: () => ({}) }
)

/**
 * Returns the bodies of changes in a format. There are none without the format, or when it has a defect: the attempt of a change whose
 * body cannot be built alone either fails without a request.
 */
export const makeFormatted = Effect.map(
  CallbackFormats,
  (formats) =>
  (
    name: string,
    changes: ReadonlyArray<ReportedChange>
  ): Effect.Effect<ReadonlyArray<Option.Option<OpaqueJson>>, StoreUnavailable> => {
    const format = formats[name]
    const bodies = format === undefined ? Effect.die(new Error(`There is no webhook format ${name}`)) : format(changes)
    return bodies.pipe(
      Effect.map(Arr.map(Option.some)),
      Effect.catchDefect((cause) =>
        Effect.as(Effect.logError("webhooks have no body", cause), changes.map(() => Option.none()))
      ),
      Effect.annotateLogs({ taskIds: changes.map(({ uuid }) => uuid) })
    )
  }
)
