/** Handlers of `contract/rpc/RpcCore`, with the use case of REST's `POST /internal/core/events`. */
import { Effect } from "effect"
import { Tasks } from "../../../services/Tasks.ts"
import { CoreRpc } from "../../contract/rpc/RpcCore.ts"
import { bodies } from "../body/Bodies.ts"
import { asInvalidRequest, refuseOutage } from "./RpcRequests.ts"

export const layer = CoreRpc.toLayer(
  Effect.map(Tasks, (tasks) =>
    CoreRpc.of({
      "Core.report": ({ event }) =>
        bodies.coreEvent.decode(event).pipe(
          Effect.mapError(asInvalidRequest),
          Effect.flatMap(tasks.report),
          refuseOutage
        )
    }))
)
