/** Bounds the bytes of calls that a node holds over all connections to `/rpc`. A call beyond the bound is refused, not queued. */
import * as Limits from "../../domain/Limits.ts"
import { Unavailable } from "../contract/rpc/RpcErrors.ts"

export class RpcMemory {
  #held = 0

  /** Bytes. */
  inUse = () => this.#held

  /**
   * Reserves bytes until `release`, or returns false when the bound would be exceeded. Messages that are longer than any call leave room for
   * one, however slowly they arrive.
   */
  reserve(bytes: number): boolean {
    const kept = bytes > Limits.rpcCallBytes ? Limits.rpcCallBytes : 0
    if (this.#held + bytes > Limits.rpcBytesInFlight - kept) return false
    this.#held += bytes
    return true
  }

  release(bytes: number): void {
    this.#held -= bytes
  }
}

export const busy = new Unavailable({ message: "Too many calls are in flight. Try again soon." })
