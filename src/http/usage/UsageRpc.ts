/** `GET /api/usage` on behalf of any `sub`. */
import { Schema } from "effect"
import { Rpc, RpcGroup } from "effect/rpc"
import { usageKeys, usageSteps } from "../../services/usage/Usage.ts"
import { refusals, RpcAuthorization } from "../contract/rpc/RpcErrors.ts"
import { UsageView } from "./UsageSchemas.ts"

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
