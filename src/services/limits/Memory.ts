/**
 * The large texts that a node may hold, in bytes: two budgets, of users and of the core, each the sum of its shares. A request takes a
 * share once, for the most that it needs, and several shares only in the order of this list, so that no two wait for each other. Small
 * texts (`Limits.smallText`) are not counted: the bounds of connections, statements and attempts bound them. Nor are the requests of runs that
 * wait for their dispatch, of at most 1 MiB each (`actors/Dispatch`), which only the limit of active tasks bounds.
 */
import { Context, Effect, Layer, Record, Struct } from "effect"
import * as Limits from "../../domain/Limits.ts"
import * as Metrics from "../telemetry/Metrics.ts"
import * as FairPermits from "./FairPermits.ts"

export type Budget = "users" | "core"

export interface Size extends FairPermits.Bounds {
  readonly budget: Budget
}

/** A body or turn takes several times its size for a moment, while it is parsed or the driver copies it. */
export const sizes = {
  /** Bodies of requests, from their arrival to the response. The holder is a user. */
  bodies: { budget: "users", total: 2 * Limits.jsonBodyBytes, perHolder: Limits.jsonBodyBytes },
  /** Requests of façades whose references are replaced by what they refer to. */
  composed: { budget: "users", total: 2 * Limits.jsonBodyBytes, perHolder: Limits.jsonBodyBytes },
  /** Turns that are sent, as fast as clients read them. */
  sent: { budget: "users", total: 3 * Limits.coreEventBytes, perHolder: Limits.coreEventBytes },
  /** Turns that are read from the store. One user leaves room for a turn of another. */
  read: { budget: "users", total: Limits.coreEventBytes + Limits.jsonBodyBytes, perHolder: Limits.coreEventBytes },
  /** Bodies of the core's events. */
  events: { budget: "core", total: Limits.coreEventBytes, perHolder: Limits.coreEventBytes },
  /** Bodies of webhooks, until the target has responded. */
  deliveries: { budget: "core", total: 2 * Limits.webhookBytes, perHolder: Limits.webhookBytes }
} as const satisfies Readonly<Record<string, Size>>

export type Use = keyof typeof sizes

/** Beside the largest text of one user there is room for a body of another one, where the whole budget has it. */
export const leastOf = ({ perHolder, total }: Size) => Math.min(total, perHolder + Limits.jsonBodyBytes)

/** Tests make them smaller. */
export const Sizes = Context.Reference<Readonly<Record<Use, Size>>>("async-task-service/services/limits/Memory/Sizes", {
  defaultValue: () => sizes
})

/** The bytes that a node keeps of the texts that runs write: the least recently read are freed first, so nobody waits for it. */
export const LiveBytes = Context.Reference<number>("async-task-service/services/limits/Memory/LiveBytes", {
  defaultValue: () => 64 * 1024 * 1024
})

/** Told of bytes that passed through this node. The runtime collects the driver's buffers, which pile up outside of V8's heap, in time. */
export const PassedBytes = Context.Reference<(count: number) => void>(
  "async-task-service/services/limits/Memory/PassedBytes",
  { defaultValue: () => () => {} }
)

/** Shows a share in the metrics. */
export const observe = Effect.fnUntraced(function*(
  budget: Budget,
  use: string,
  total: number,
  { inUse, waiting }: Pick<FairPermits.FairPermits, "inUse" | "waiting">
) {
  yield* Metrics.memoryInUse.observe(inUse, budget, use)
  yield* Metrics.memoryLimit.observe(() => total, budget, use)
  yield* Metrics.memoryWaiting.observe(waiting, budget, use)
})

export class Memory extends Context.Service<Memory, Readonly<Record<Use, FairPermits.FairPermits>>>()(
  "async-task-service/services/limits/Memory"
) {
  static readonly layer = Layer.effect(
    Memory,
    Effect.gen(function*() {
      const given = yield* Sizes
      const memory = Record.map(given, (size) => FairPermits.make(size))
      for (const use of Struct.keys(memory)) yield* observe(given[use].budget, use, given[use].total, memory[use])
      return memory
    })
  )
}
