/**
 * The group `Tasks` of the internal interface: REST's operations on behalf of any `sub`. Bodies are those of REST and are
 * decoded by the same rules, so an invalid field is an `InvalidRequest` that names it.
 */
import { Schema } from "effect"
import { Rpc, RpcGroup } from "effect/rpc"
import { JsonValue } from "../../../domain/json/OpaqueJson.ts"
import * as TaskErrors from "../../../domain/TaskErrors.ts"
import type { InternalCreateTaskBody } from "../../../domain/TaskRequest.ts"
import type { InternalRerunBody } from "../../../domain/TaskRerun.ts"
import * as Tasks from "../TaskSchemas.ts"
import { InvalidRequest, refusals, RpcAuthorization, Unavailable } from "./RpcErrors.ts"

/** JSON for the handler, which decodes it by REST's rules; clients construct it as REST's body. */
export interface BodyOf<S extends Schema.Top> extends
  Schema.Bottom<
    Schema.Json,
    Schema.Json,
    never,
    never,
    (typeof JsonValue)["ast"],
    BodyOf<S>,
    S["Encoded"]
  >
{}

/** A body of REST within a payload. */
export const bodyOf = <S extends Schema.Top>() => Schema.make<BodyOf<S>>(JsonValue.ast)

const onBehalf = { sub: Schema.String.annotate({ description: "The user, as in the `sub` claim of a token." }) }

const ofOneTask = { ...onBehalf, uuid: Schema.String }

const retryable = {
  idempotency_key: Schema.optionalKey(Schema.String).annotate({
    description: "The same as REST's `Idempotency-Key`; a key used there names the same request here."
  })
}

const withUserToken = {
  user_token: Schema.optionalKey(Schema.String).annotate({
    description: "A valid token of `sub`, with which the core calls the assistant backend. Without it the core has "
      + "no token."
  })
}

const including = {
  include: Schema.optionalKey(Schema.Array(Schema.String)).annotate({ description: "As REST's `include`." })
}

const taskErrors = [Unavailable, TaskErrors.TaskNotFound, TaskErrors.TaskBelongsToAnother] as const

export class TasksRpc extends RpcGroup.make(
  Rpc.make("Tasks.create", {
    payload: { ...onBehalf, ...withUserToken, ...retryable, task: bodyOf<typeof InternalCreateTaskBody>() },
    success: Tasks.CreatedTaskView,
    error: Schema.Union([InvalidRequest, Unavailable, TaskErrors.TooManyActiveTasks, TaskErrors.IdempotencyKeyReused])
  }),
  /** Creates a task with the request of another, some fields of it replaced. */
  Rpc.make("Tasks.rerun", {
    payload: {
      ...ofOneTask,
      ...withUserToken,
      ...retryable,
      body: Schema.optionalKey(bodyOf<typeof InternalRerunBody>())
    },
    success: Tasks.CreatedTaskView,
    error: Schema.Union([
      ...taskErrors,
      InvalidRequest,
      TaskErrors.RequestNotKept,
      TaskErrors.TooManyActiveTasks,
      TaskErrors.IdempotencyKeyReused
    ])
  }),
  Rpc.make("Tasks.get", {
    payload: { ...ofOneTask, ...including },
    success: Tasks.TaskView,
    error: Schema.Union([...taskErrors, InvalidRequest])
  }),
  /** Also with the parameters that extensions add to REST's list. */
  Rpc.make("Tasks.list", {
    payload: Schema.StructWithRest(
      Schema.Struct({
        ...onBehalf,
        status: Schema.optionalKey(Schema.Array(Schema.String)),
        page: Schema.optionalKey(Schema.Finite),
        per_page: Schema.optionalKey(Schema.Finite),
        metadata: Schema.optionalKey(Schema.Record(Schema.String, Schema.String)),
        q: Schema.optionalKey(Schema.String),
        assistant_id: Schema.optionalKey(Schema.Finite),
        from: Schema.optionalKey(Schema.String),
        to: Schema.optionalKey(Schema.String),
        ...including
      }),
      [Schema.Record(Schema.String, Schema.Json)]
    ),
    success: Tasks.TaskPageView,
    error: refusals
  }),
  Rpc.make("Tasks.submitToolResults", {
    payload: { ...ofOneTask, ...withUserToken, ...retryable, body: bodyOf<typeof Tasks.ToolResultsBody>() },
    success: Tasks.ResumedTaskView,
    error: Schema.Union([
      ...taskErrors,
      InvalidRequest,
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
  /** Cancels the task in any status that is not final; the core stops the run. `Tasks.cancel` is for interrupted tasks only. */
  Rpc.make("Tasks.withdraw", {
    payload: { ...ofOneTask, body: Schema.optionalKey(bodyOf<typeof Tasks.CancelBody>()) },
    success: Tasks.CanceledTaskView,
    error: Schema.Union([...taskErrors, InvalidRequest, TaskErrors.TaskHasEnded])
  }),
  Rpc.make("Tasks.delete", { payload: ofOneTask, error: Schema.Union([...taskErrors, TaskErrors.TaskNotEnded]) }),
  Rpc.make("Tasks.cancelInterrupted", { payload: onBehalf, success: Tasks.CanceledTasksView, error: refusals }),
  /**
   * Every transition and progress note after the revision `after`, then new ones; ends after the final event. `include: ["turn"]`
   * adds the texts of partial turns, as `?include=turn` does.
   */
  Rpc.make("Tasks.watch", {
    payload: {
      ...ofOneTask,
      after: Schema.optionalKey(Schema.Int.check(Schema.isBetween({ minimum: -1, maximum: 2 ** 31 - 1 }))),
      include: Schema.optionalKey(Schema.Array(Schema.Literal("turn")))
    },
    success: Tasks.WatchedEventView,
    error: Schema.Union([...taskErrors, TaskErrors.TooManyWaiting]),
    stream: true
  })
).middleware(RpcAuthorization) {}
