/** The checks behind `/readyz`: whether this node can do its work now. */
import { Context, type Effect } from "effect"

export interface Check {
  readonly name: string
  /** Null when the check passes. */
  readonly problem: string | null
  /** Whether the node can do its work in spite of the problem. */
  readonly isWarning?: true
}

export const isFailing = ({ isWarning, problem }: Check): boolean => problem !== null && isWarning !== true

export class Readiness extends Context.Service<Readiness, {
  readonly checks: Effect.Effect<ReadonlyArray<Check>>
}>()("async-task-service/services/operations/Readiness") {}
