/** The checks behind `/readyz`: whether this node can do its work now. */
import { Context, type Effect } from "effect"

export interface Check {
  readonly name: string
  /** Null when the check passes. */
  readonly problem: string | null
}

export class Readiness extends Context.Service<Readiness, {
  readonly checks: Effect.Effect<ReadonlyArray<Check>>
}>()("async-task-service/services/operations/Readiness") {}

/** Observations of the database client. The problem contains no address; null while the database works. */
export const StoreHealth = Context.Reference<{ readonly problem: () => string | null }>(
  "async-task-service/services/operations/Readiness/StoreHealth",
  { defaultValue: () => ({ problem: () => null }) }
)
