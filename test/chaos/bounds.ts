/**
 * The seconds in which tasks have to continue after each fault, plus the time that the machine needs without a fault.
 */
import type { Outcome } from "./cell.ts"
import type { Fault } from "./Faults.ts"

/** The bound for all faults without an entry of their own. */
const general = 15
const bounds: Partial<Readonly<Record<Fault, number>>> = {
  kill: 5,
  term: 1,
  freeze: 10,
  // The database is unavailable for five of these seconds.
  outage: 10
}

/** An attempt counts as lost 5 s after its timeout of 2 s, and the next one begins up to 10.5 s later. */
const secondAttempt = 17.5

export const boundOf = ({ fault, nodes, state }: Outcome, calm: number) => {
  // No other node can replace a single node.
  const bound = nodes === 1 ? general : bounds[fault] ?? general
  return bound + (state === "delivering" ? secondAttempt : calm)
}
