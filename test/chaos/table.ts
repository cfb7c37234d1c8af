/** The table of a run in test/README.md: a line for each fault, and the worst recovery of each state. */
import { table } from "../docs/markdown.ts"
import type { Outcome } from "./cell.ts"
import { titles } from "./Faults.ts"
import { stages } from "./Plan.ts"
import { type Promised, promises } from "./Recorder.ts"

const own: ReadonlyArray<Promised> = ["lost", "twice terminal", "over limit"]

const inSeconds = (seconds: number) => `${seconds.toFixed(1)} s`
const sum = (numbers: ReadonlyArray<number>) => numbers.reduce((total, number) => total + number, 0)

export const tableOf = (outcomes: ReadonlyArray<Outcome>) => {
  const byFault = Map.groupBy(outcomes, ({ fault }) => fault)
  return table(
    ["fault", "rounds", "acknowledged", ...own, "otherwise broken", "time limit late by", ...stages],
    [...byFault].map(([fault, cells]) => {
      const broken = (promise: Promised) => sum(cells.map((cell) => cell.broken[promise]))
      return [
        titles[fault],
        String(sum(cells.map(({ rounds }) => rounds))),
        String(sum(cells.map(({ acknowledged }) => acknowledged))),
        ...own.map((promise) => String(broken(promise))),
        String(sum(promises.filter((promise) => !own.includes(promise)).map(broken))),
        inSeconds(Math.max(...cells.map(({ worstLateness }) => worstLateness))),
        ...stages.map((stage) => inSeconds(cells.find(({ state }) => state === stage)!.worstRecovery))
      ]
    })
  )
}
