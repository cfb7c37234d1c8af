/** `contract/RpcCore`: the events of a core, by the use case that REST's `/internal/core/events` calls. */
import { Effect } from "effect"
import { Tasks } from "../../../services/Tasks.ts"
import { CoreRpc } from "../../contract/rpc/RpcCore.ts"
import { bodies } from "../body/Bodies.ts"
import { asInvalidRequest } from "./RpcRequests.ts"

export const layer = CoreRpc.toLayer(
  Effect.map(Tasks, (tasks) =>
    CoreRpc.of({
      "Core.report": ({ event }) =>
        bodies.coreEvent.decode(event).pipe(Effect.mapError(asInvalidRequest), Effect.flatMap(tasks.report))
    }))
)
