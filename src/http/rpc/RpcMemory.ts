/** Bytes of calls that a node holds, over all connections to `/rpc`. A call that finds no room is refused, not queued. */
import { Context, Layer } from "effect"
import * as Limits from "../../domain/Limits.ts"
import { Unavailable } from "../contract/rpc/RpcErrors.ts"

export class RpcMemory extends Context.Service<RpcMemory, {
  /** Whether there was room for so many bytes; they are taken then, until `give`. */
  readonly take: (bytes: number) => boolean
  readonly give: (bytes: number) => void
}>()("async-task-service/http/rpc/RpcMemory") {
  static readonly layer = Layer.sync(RpcMemory, () => {
    let held = 0
    return {
      take: (bytes) => {
        if (held + bytes > Limits.rpcBytesInFlight) return false
        held += bytes
        return true
      },
      give: (bytes) => {
        held -= bytes
      }
    }
  })
}

export const busy = new Unavailable({ message: "Too many calls are in flight. Try again soon." })
