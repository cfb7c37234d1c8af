/** Reasons why a request about a task fails. REST and RPC map them to their own errors. */
import { Schema } from "effect"
import * as Limits from "./Limits.ts"
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
      ? "The task has changed in the meantime. Read it again."
      : `The task is ${this.status}, not interrupted.`
  }
}

export class TaskHasEnded extends Schema.TaggedError<TaskHasEnded>()("TaskHasEnded", { status: TaskStatus }) {
  override get message() {
    return `The task has ended: it is ${this.status}.`
  }
}

/** The request was too large to keep, or refers to a task that was deleted. */
export class RequestNotKept extends Schema.TaggedError<RequestNotKept>()("RequestNotKept", {}) {
  override get message() {
    return `The request of this task is not kept: it has more than ${Limits.keptRequestBytes} bytes, or the task that it repeats or `
      + "continues was deleted. Create a new task."
  }
}

export class TaskNotEnded extends Schema.TaggedError<TaskNotEnded>()("TaskNotEnded", { status: TaskStatus }) {
  override get message() {
    return `The task is ${this.status}. Only a task that has ended can be deleted.`
  }
}

/** The run is not the task's current one, or the task has ended: the core should stop. */
export class RunSuperseded extends Schema.TaggedError<RunSuperseded>()("RunSuperseded", { status: TaskStatus }) {
  override get message() {
    return "The run is not the task's current one, or the task has ended: stop it."
  }
}

/** The tool results do not answer each pending call exactly once. `index` is null when a result is missing. */
export class ToolResultsMismatch extends Schema.TaggedError<ToolResultsMismatch>()("ToolResultsMismatch", {
  problems: Schema.Array(Schema.Struct({ index: Schema.NullOr(Schema.Int), message: Schema.String }))
}) {
  override get message() {
    return this.problems.map(({ message }) => message).join("; ")
  }
}

/** A limit of an extension, of which the core knows only this: its name for programs, and what the user can do. */
export class CreateRefused extends Schema.TaggedError<CreateRefused>()("CreateRefused", {
  limit: Schema.String,
  message: Schema.String
}) {}

/** The user already has the maximum number of active tasks. */
export class TooManyActiveTasks extends Schema.TaggedError<TooManyActiveTasks>()("TooManyActiveTasks", {
  maximum: Schema.Int
}) {
  override get message() {
    return `Too many active tasks. The maximum is ${this.maximum} concurrent tasks.`
  }
}

/** The user already has the maximum number of waiting requests (long polls and event streams). */
export class TooManyWaiting extends Schema.TaggedError<TooManyWaiting>()("TooManyWaiting", { maximum: Schema.Int }) {
  override get message() {
    return `Too many waiting requests. The maximum is ${this.maximum}.`
  }
}

/** The `Idempotency-Key` was used for a request with another body. */
export class IdempotencyKeyReused extends Schema.TaggedError<IdempotencyKeyReused>()("IdempotencyKeyReused", {}) {
  override get message() {
    return "This key was used for another request within the last 24 hours"
  }
}
