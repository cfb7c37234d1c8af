/** Handles `Tasks.usage` of the internal interface. */
import { Effect } from "effect"
import { ValidationFailed } from "../contract/Errors.ts"
import { Unavailable } from "../contract/rpc/RpcErrors.ts"
import * as RpcRequests from "../handlers/rpc/RpcRequests.ts"
import { UsageReads } from "./UsageHandlers.ts"
import { UsageRpc } from "./UsageRpc.ts"

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
