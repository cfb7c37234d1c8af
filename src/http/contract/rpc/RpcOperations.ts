/** The group `Operations` of the internal interface, for operators. */
import { Schema } from "effect"
import { Rpc, RpcGroup } from "effect/rpc"
import { TaskHasEnded, TaskNotFound } from "../../../domain/TaskErrors.ts"
import { DeliveryNeedsSecret, DeliveryNotFound, DeliveryState } from "../../../domain/Webhook.ts"
import { ClusterView } from "../OperatorSchemas.ts"
import { type CancelBody, CanceledTaskView, DeliveryView, StatsView } from "../TaskSchemas.ts"
import { InvalidRequest, refusals, Unavailable } from "./RpcErrors.ts"
import { RpcAuthorization } from "./RpcMiddleware.ts"
import { bodyOf } from "./RpcTasks.ts"

export class OperationsRpc extends RpcGroup.make(
  /** The number of tasks in each status and the next deadline. Counts every task: call it once a minute, not once a second. */
  Rpc.make("Operations.stats", { success: StatsView, error: Unavailable }),
  /** Former name of `Operations.stats`, for one version. */
  Rpc.make("Operations.standing", { success: StatsView, error: Unavailable }),
  /** Webhooks of all users, newest first; 100 by default, at most 500. */
  Rpc.make("Operations.deliveries", {
    payload: {
      origin: Schema.optionalKey(Schema.String),
      state: Schema.optionalKey(DeliveryState),
      limit: Schema.optionalKey(Schema.Int)
    },
    success: Schema.Array(DeliveryView),
    error: refusals
  }),
  Rpc.make("Operations.redeliver", {
    payload: { id: Schema.String },
    success: DeliveryView,
    error: Schema.Union([Unavailable, DeliveryNotFound, DeliveryNeedsSecret])
  }),
  /** Enqueues one more attempt of every failed webhook, of one origin or all, and returns their number. */
  Rpc.make("Operations.redeliverFailed", {
    payload: { origin: Schema.optionalKey(Schema.String) },
    success: Schema.Int,
    error: refusals
  }),
  /** Cancels any user's task in any status that is not final; the core stops its run. */
  Rpc.make("Operations.cancel", {
    payload: { uuid: Schema.String, body: Schema.optionalKey(bodyOf<typeof CancelBody>()) },
    success: CanceledTaskView,
    error: Schema.Union([InvalidRequest, Unavailable, TaskNotFound, TaskHasEnded])
  }),
  /** The nodes with their shards, tasks and lateness. */
  Rpc.make("Operations.cluster", { success: ClusterView, error: Unavailable }),
  /** Moves the shards of the called node to the others. The node is no longer ready but still serves requests. */
  Rpc.make("Operations.drain", { success: ClusterView, error: Unavailable }),
  /** Lets the called node own shards again, and assigns all shards anew. */
  Rpc.make("Operations.undrain", { success: ClusterView, error: Unavailable }),
  /** Former name of `Operations.undrain`, for one version. */
  Rpc.make("Operations.rebalance", { success: ClusterView, error: Unavailable })
).middleware(RpcAuthorization) {}
