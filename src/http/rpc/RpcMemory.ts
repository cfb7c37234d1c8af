/** Bounds the bytes of calls that a node holds over all connections to `/rpc`. A call beyond the bound is refused, not queued. */
import { Context, Layer } from "effect"
import * as Limits from "../../domain/Limits.ts"
import { Unavailable } from "../contract/rpc/RpcErrors.ts"

export class RpcMemory extends Context.Service<RpcMemory, {
  /** Reserves bytes until `release`, or returns false when the bound would be exceeded. */
  readonly reserve: (bytes: number) => boolean
  readonly release: (bytes: number) => void
}>()("async-task-service/http/rpc/RpcMemory") {
  static readonly layer = Layer.sync(RpcMemory, () => {
    let held = 0
    return {
      reserve: (bytes) => {
        if (held + bytes > Limits.rpcBytesInFlight) return false
        held += bytes
        return true
      },
      release: (bytes) => {
        held -= bytes
      }
    }
  })
}

export const busy = new Unavailable({ message: "Too many calls are in flight. Try again soon." })
