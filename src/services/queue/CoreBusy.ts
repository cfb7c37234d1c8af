/** Whether the core has said that it has no room, as this node knows. */
import { Context, Layer } from "effect"
import type { Timestamp } from "../../domain/Timestamp.ts"

export interface BusySince {
  /** The first answer that said so. */
  readonly since: Timestamp
  /** How many of this node's runs it has, of those that it took. */
  readonly runs: number
}

export class CoreBusy extends Context.Service<CoreBusy, {
  /** Undefined while the core has room, as far as this node knows. */
  readonly now: () => BusySince | undefined
}>()("async-task-service/services/queue/CoreBusy") {
  static readonly layer = Layer.sync(CoreBusy, () => ({ now: () => undefined }))
}
