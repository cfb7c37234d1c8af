/** Whether this node can do its work now: what `/readyz` answers by. */
import { Context, type Effect } from "effect"

export interface Check {
  readonly name: string
  /** Null when all is well. */
  readonly problem: string | null
}

export class Readiness extends Context.Service<Readiness, {
  readonly checks: Effect.Effect<ReadonlyArray<Check>>
}>()("async-task-service/services/Readiness") {}
