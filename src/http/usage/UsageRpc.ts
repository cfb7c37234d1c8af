/** `Tasks.usage` of the internal interface: `GET /api/usage` on behalf of any `sub`. */
import { Effect, Schema } from "effect"
import { Rpc, RpcGroup } from "effect/rpc"
import { ValidationFailed } from "../contract/Errors.ts"
import { InvalidRequest, RpcAuthorization, Unavailable } from "../contract/rpc/RpcErrors.ts"
import { UsageView } from "../contract/UsageSchemas.ts"
import * as RpcRequests from "../handlers/rpc/RpcRequests.ts"
import { UsageReads } from "./UsageHandlers.ts"

const text = Schema.optionalKey(Schema.String)

export class UsageRpc extends RpcGroup.make(
  Rpc.make("Tasks.usage", {
    payload: {
      sub: Schema.String,
      from: text,
      to: text,
      step: text,
      group_by: Schema.optionalKey(Schema.Array(Schema.String)),
      assistant_id: Schema.optionalKey(Schema.Finite)
    },
    success: UsageView,
    error: Schema.Union([InvalidRequest, Unavailable])
  })
).middleware(RpcAuthorization) {}

export const layer = UsageRpc.toLayer(
  Effect.map(UsageReads, ({ read }) =>
    UsageRpc.of({
      "Tasks.usage": ({ assistant_id, group_by = [], sub, ...given }) =>
        Effect.flatMap(RpcRequests.principal(sub), (principal) =>
          Effect.mapError(
            read({
              ...given,
              ...(group_by.length === 0 ? {} : { group_by: group_by.join() }),
              ...(assistant_id === undefined ? {} : { assistant_id: String(assistant_id) })
            }, principal.sub),
            (error) =>
              error instanceof ValidationFailed
                ? RpcRequests.asInvalidRequest(error)
                : new Unavailable({ message: error.message })
          ))
    }))
)
