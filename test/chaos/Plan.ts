/** Instructions for the core and the webhook target, carried by the input of a task and its callback URL. */
import type { StartedRun } from "../kit/ScriptedCore.ts"

export const stages = ["pending", "dispatching", "processing", "interrupted", "resuming", "delivering"] as const
export type Stage = typeof stages[number]

export interface Plan {
  /** The gate that holds the task. */
  readonly gate: string
  readonly number: number
  /** The state in which the task is held; null when it is not held. */
  readonly hold: Stage | null
  /** Whether the first run ends with a client tool call. */
  readonly interrupts: boolean
  /** `never`: the core stays silent until it receives a stop request. */
  readonly ends: "well" | "never"
  /** Maximum milliseconds of one step of the core. */
  readonly pace: number
}

/** The tasks that a state holds. */
export interface Batch {
  /** Releases all tasks after the fault has happened. */
  readonly release: () => void
  /** The moment when all held tasks had reached their required end, as seen from outside. */
  readonly moved: Promise<number>
}

export const textOf = (plan: Plan) => JSON.stringify(plan)
export const planOf = (run: StartedRun) => JSON.parse(run.input[0]?.text ?? "null") as Plan
