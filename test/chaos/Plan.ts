/** What the core and the target are to do with a task: it travels as the task's input and in its callback URL. */
import type { StartedRun } from "../kit/ScriptedCore.ts"

export const stages = ["pending", "handing over", "processing", "interrupted", "resuming", "delivering"] as const
export type Stage = typeof stages[number]

export interface Plan {
  /** The gate that holds the task. */
  readonly gate: string
  readonly number: number
  /** Where the task is held; null when nowhere. */
  readonly hold: Stage | null
  /** Whether its first run ends with the call of a client tool. */
  readonly interrupts: boolean
  /** `never`: the core goes silent, until it is told to stop. */
  readonly ends: "well" | "never"
  /** Milliseconds that the core takes for a step, at most. */
  readonly pace: number
}

export const textOf = (plan: Plan) => JSON.stringify(plan)
export const planOf = (run: StartedRun) => JSON.parse(run.input[0]?.text ?? "null") as Plan
