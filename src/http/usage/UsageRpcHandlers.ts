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
      "Tasks.usage": ({ group_by = [], sub, ...given }) =>
        Effect.flatMap(RpcRequests.principal(sub), (principal) =>
          Effect.mapError(
            read(
              RpcRequests.queryOf({ ...given, group_by: group_by.length === 0 ? undefined : group_by.join() }),
              principal.sub
            ),
            (error) =>
              error instanceof ValidationFailed
                ? RpcRequests.asInvalidRequest(error)
                : new Unavailable({ message: error.message })
          ))
    }))
)
