/** Handlers of `contract/rpc/RpcCore`, with the use case of REST's `POST /internal/core/events`. */
import { Effect } from "effect"
import { Tasks } from "../../../services/Tasks.ts"
import { CoreRpc } from "../../contract/rpc/RpcCore.ts"
import { decode, refuseOutage } from "./RpcRequests.ts"

export const layer = CoreRpc.toLayer(
  Effect.map(Tasks, (tasks) =>
    CoreRpc.of({
      "Core.report": ({ event }) => decode("coreEvent", event).pipe(Effect.flatMap(tasks.report), refuseOutage)
    }))
)
