/** Why something asked of a task was not done: facts, the same to REST, RPC and everything inside. */
import { Schema } from "effect"
import { TaskStatus } from "./Task.ts"

export class TaskNotFound extends Schema.TaggedError<TaskNotFound>()("TaskNotFound", {}) {
  override get message() {
    return "There is no such task."
  }
}

export class TaskBelongsToAnother extends Schema.TaggedError<TaskBelongsToAnother>()("TaskBelongsToAnother", {}) {
  override get message() {
    return "The task belongs to another user."
  }
}

export class TaskNotInterrupted extends Schema.TaggedError<TaskNotInterrupted>()("TaskNotInterrupted", {
  status: TaskStatus
}) {
  override get message() {
    return this.status === "interrupted"
      ? "The task has moved on meanwhile. Read it again."
      : `The task is ${this.status}, not interrupted.`
  }
}

/** The run is not the task's current one, or the task has ended: the core should stop. */
export class RunSuperseded extends Schema.TaggedError<RunSuperseded>()("RunSuperseded", { status: TaskStatus }) {
  override get message() {
    return "The run is not the task's current one: stop it."
  }
}

/** Tool results that do not answer each pending call exactly once. `index` is absent when one is missing. */
export class ToolResultsMismatch extends Schema.TaggedError<ToolResultsMismatch>()("ToolResultsMismatch", {
  problems: Schema.Array(Schema.Struct({ index: Schema.NullOr(Schema.Int), message: Schema.String }))
}) {
  override get message() {
    return this.problems.map(({ message }) => message).join("; ")
  }
}

/** SPEC "Limits": the user already holds as many active tasks as allowed. */
export class TooManyActiveTasks extends Schema.TaggedError<TooManyActiveTasks>()("TooManyActiveTasks", {
  maximum: Schema.Int
}) {
  override get message() {
    return `Too many active tasks. The maximum is ${this.maximum} concurrent tasks.`
  }
}

/** The user has too many requests that wait. */
export class TooManyWaiting extends Schema.TaggedError<TooManyWaiting>()("TooManyWaiting", { maximum: Schema.Int }) {
  override get message() {
    return `Too many requests wait at a time. The maximum is ${this.maximum}.`
  }
}

/** The key stands for another request already (CONTRACT 2, `Idempotency-Key`). */
export class IdempotencyKeyReused extends Schema.TaggedError<IdempotencyKeyReused>()("IdempotencyKeyReused", {}) {
  override get message() {
    return "This key was used for another request within the last 24 hours"
  }
}
