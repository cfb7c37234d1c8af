/** How soon tasks have to go on after each fault. What the machine needs without any fault is not the fault's. */
import type { Outcome } from "./cell.ts"
import type { Fault } from "./Faults.ts"

/** RELIABILITY's bound for all faults. */
const general = 15
const bounds: Partial<Readonly<Record<Fault, number>>> = {
  kill: 5,
  term: 1,
  freeze: 10,
  // Five seconds of them the database is away.
  outage: 10
}

/** A lost attempt is one after its time-out of 2 s and 5 s more, and the next comes up to 10.5 s later. */
const secondAttempt = 17.5

export const boundOf = ({ fault, nodes, state }: Outcome, calm: number) => {
  // No one goes on in the place of a node that is alone.
  const bound = nodes === 1 ? general : bounds[fault] ?? general
  return bound + (state === "delivering" ? secondAttempt : calm)
}
