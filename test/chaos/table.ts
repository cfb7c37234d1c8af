/** The list of a run in test/README.md: a line for each fault. */
import { list } from "../docs/markdown.ts"
import type { Outcome } from "./cell.ts"
import { titles } from "./Faults.ts"
import { promises } from "./Recorder.ts"

const inSeconds = (seconds: number) => `${seconds.toFixed(1)} s`
const sum = (numbers: ReadonlyArray<number>) => numbers.reduce((total, number) => total + number, 0)

export const tableOf = (outcomes: ReadonlyArray<Outcome>) => {
  const byFault = Map.groupBy(outcomes, ({ fault }) => fault)
  return list([...byFault].map(([fault, cells]) => {
    const broken = sum(cells.flatMap(({ broken }) => promises.map((promise) => broken[promise])))
    const late = Math.max(...cells.map(({ worstLateness }) => worstLateness))
    // A second attempt of a webhook waits for its retry anyway.
    const recovered = Math.max(
      ...cells.map(({ state, worstRecovery }) => state === "delivering" ? 0 : worstRecovery)
    )
    return `${titles[fault]}: ${broken}, ${inSeconds(late)}, ${inSeconds(recovered)}`
  }))
}
