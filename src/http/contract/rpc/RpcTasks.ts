/**
 * The group `Tasks` of the internal interface (CONTRACT 6): what REST offers a user, on behalf of any `sub`. Bodies are
 * REST's own, decoded by the same rules, so that a broken field is an `InvalidRequest` that names it.
 */
import { Schema } from "effect"
import { Rpc, RpcGroup } from "effect/rpc"
import * as TaskErrors from "../../../domain/TaskErrors.ts"
import type { CreateTaskBody } from "../../../domain/TaskRequest.ts"
import * as Tasks from "../TaskSchemas.ts"
import { InvalidRequest, Unavailable } from "./RpcErrors.ts"
import { RpcAuthorization } from "./RpcMiddleware.ts"

/** A body as it stands on the wire, whatever it is: the handler decodes it. */
export const bodyOf = <S extends Schema.Top>() =>
  Schema.declare((_value): _value is S["Encoded"] => true, { toCodecJson: () => undefined })

const onBehalf = { sub: Schema.String.annotate({ description: "The user, as in the `sub` claim." }) }

const ofOneTask = { ...onBehalf, uuid: Schema.String }

const retryable = {
  idempotency_key: Schema.optionalKey(Schema.String).annotate({
    description: "As REST's `Idempotency-Key`, and the same key there means the same request."
  })
}

const withUserToken = {
  user_token: Schema.optionalKey(Schema.String).annotate({
    description: "A valid token of `sub`, which the core calls the assistant backend with. Without it there is "
      + "none to call it with."
  })
}

const taskErrors = [TaskErrors.TaskNotFound, TaskErrors.TaskBelongsToAnother] as const

export class TasksRpc extends RpcGroup.make(
  Rpc.make("Tasks.create", {
    payload: { ...onBehalf, ...withUserToken, ...retryable, task: bodyOf<typeof CreateTaskBody>() },
    success: Tasks.CreatedTaskView,
    error: Schema.Union([InvalidRequest, Unavailable, TaskErrors.TooManyActiveTasks, TaskErrors.IdempotencyKeyReused])
  }),
  Rpc.make("Tasks.get", { payload: ofOneTask, success: Tasks.TaskView, error: Schema.Union(taskErrors) }),
  Rpc.make("Tasks.list", {
    payload: {
      ...onBehalf,
      status: Schema.optionalKey(Schema.Array(Schema.String)),
      page: Schema.optionalKey(Schema.Finite),
      per_page: Schema.optionalKey(Schema.Finite)
    },
    success: Tasks.TaskPageView,
    error: InvalidRequest
  }),
  Rpc.make("Tasks.submitToolResults", {
    payload: { ...ofOneTask, ...withUserToken, ...retryable, body: bodyOf<typeof Tasks.ToolResultsBody>() },
    success: Tasks.ResumedTaskView,
    error: Schema.Union([
      ...taskErrors,
      InvalidRequest,
      Unavailable,
      TaskErrors.TaskNotInterrupted,
      TaskErrors.ToolResultsMismatch,
      TaskErrors.IdempotencyKeyReused
    ])
  }),
  Rpc.make("Tasks.cancel", {
    payload: { ...ofOneTask, ...retryable, body: Schema.optionalKey(bodyOf<typeof Tasks.CancelBody>()) },
    success: Tasks.CanceledTaskView,
    error: Schema.Union([
      ...taskErrors,
      InvalidRequest,
      TaskErrors.TaskNotInterrupted,
      TaskErrors.IdempotencyKeyReused
    ])
  }),
  Rpc.make("Tasks.cancelInterrupted", { payload: onBehalf, success: Tasks.CanceledTasksView, error: InvalidRequest }),
  /** Every transition and progress note after `after` (a revision), and those to come; ends after the terminal one. */
  Rpc.make("Tasks.watch", {
    payload: { ...ofOneTask, after: Schema.optionalKey(Schema.Int) },
    success: Tasks.WatchedEventView,
    error: Schema.Union([...taskErrors, TaskErrors.TooManyWaiting]),
    stream: true
  })
).middleware(RpcAuthorization) {}
