/** `GET /api/usage` on behalf of any `sub`. An extension handles it. */
import { Schema } from "effect"
import { Rpc, RpcGroup } from "effect/rpc"
import { usageKeys, usageSteps } from "../../../domain/Usage.ts"
import { UsageView } from "../UsageSchemas.ts"
import { refusals, RpcAuthorization } from "./RpcErrors.ts"

const moment = Schema.optionalKey(Schema.String)

export class UsageRpc extends RpcGroup.make(
  Rpc.make("Tasks.usage", {
    payload: {
      sub: Schema.String,
      from: moment,
      to: moment,
      step: Schema.optionalKey(Schema.Literals(usageSteps)),
      group_by: Schema.optionalKey(Schema.Array(Schema.Literals(usageKeys).pick(["assistant", "model"]))),
      assistant_id: Schema.optionalKey(Schema.Finite)
    },
    success: UsageView,
    error: refusals
  })
).middleware(RpcAuthorization) {}
