/**
 * What extensions know of tasks. Each has a name: as a parameter of lists it selects tasks, and as a value of `include` it adds a field to a
 * task.
 */
import { Context, type Effect } from "effect"
import type { StoreUnavailable } from "../../domain/StoreUnavailable.ts"
import type { TaskId } from "../../domain/Task.ts"

export interface TaskLink {
  readonly name: string
  /** How its parameter selects tasks; absent without one. */
  readonly selection?: {
    /** Says what a value of the parameter must be. */
    readonly expected: string
    readonly isValue: (text: string) => boolean
    /** The tasks of a user with a value of the parameter: a bounded number. */
    readonly select: (sub: string, value: string) => Effect.Effect<ReadonlyArray<TaskId>, StoreUnavailable>
  }
  /** The field of a task; null without one. */
  readonly describe: (
    uuid: TaskId
  ) => Effect.Effect<{ readonly [field: string]: string | number | boolean | null } | null, StoreUnavailable>
}

export const TaskLinks = Context.Reference<ReadonlyArray<TaskLink>>("async-task-service/services/store/TaskLinks", {
  defaultValue: () => []
})
