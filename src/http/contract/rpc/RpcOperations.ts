/** The group `Operations` of the internal interface, for those who run the service (CONTRACT 6). */
import { Schema } from "effect"
import { Rpc, RpcGroup } from "effect/rpc"
import { DeliveryNeedsSecret, DeliveryNotFound, DeliveryState } from "../../../domain/Webhook.ts"
import { ClusterView, DeliveryView, StatsView } from "../TaskSchemas.ts"
import { InvalidRequest } from "./RpcErrors.ts"
import { RpcAuthorization } from "./RpcMiddleware.ts"

export class OperationsRpc extends RpcGroup.make(
  /** How many tasks are in each status, and when the next clock of a live one runs out. It counts every task. */
  Rpc.make("Operations.standing", { success: StatsView }),
  /** Webhooks of all users, newest first; 100 unless `limit` says otherwise, up to 500. */
  Rpc.make("Operations.deliveries", {
    payload: {
      origin: Schema.optionalKey(Schema.String),
      state: Schema.optionalKey(DeliveryState),
      limit: Schema.optionalKey(Schema.Int)
    },
    success: Schema.Array(DeliveryView),
    error: InvalidRequest
  }),
  Rpc.make("Operations.redeliver", {
    payload: { id: Schema.String },
    success: DeliveryView,
    error: Schema.Union([DeliveryNotFound, DeliveryNeedsSecret])
  }),
  /** Owes one more attempt of every failed webhook, of one origin or any; answers how many. */
  Rpc.make("Operations.redeliverFailed", {
    payload: { origin: Schema.optionalKey(Schema.String) },
    success: Schema.Int,
    error: InvalidRequest
  }),
  /** The nodes, what each has, and how late it is. */
  Rpc.make("Operations.cluster", { success: ClusterView }),
  /** Hands the shards of the node that is asked to the others; it is not ready any more, and answers all the same. */
  Rpc.make("Operations.drain", { success: ClusterView }),
  /** Takes the node that is asked in again, drained or not: the shards are dealt anew. */
  Rpc.make("Operations.rebalance", { success: ClusterView })
).middleware(RpcAuthorization) {}
