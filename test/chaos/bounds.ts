/**
 * The seconds in which tasks have to continue after each fault, plus the time that the machine needs without a fault.
 */
import type { Outcome } from "./cell.ts"
import type { Fault } from "./Faults.ts"

/** The bound for all faults without an entry of their own. */
const general = 15
const bounds: Partial<Readonly<Record<Fault, number>>> = {
  // The lease of 4 s and a sweep. Usually the other node notices after 1.5 to 2 s that nothing listens on the address.
  kill: 5,
  // Assignments are read every 0.25 s and gained shards every 0.05 s. The newest run follows the others after at most 0.6 s.
  term: 1,
  freeze: 10,
  // The database is unavailable for five of these seconds. Then up to 1 s each until the locks are probed, the nodes are read
  // again, and shards are acquired a second time; the newest run as after `term`.
  outage: 10
}

/** All places of the core are in use again. */
const queued: Partial<Readonly<Record<Fault, number>>> = { kill: 5, freeze: 5, cut: 5, "lost-replies": 5 }

/** An attempt counts as lost 5 s after its timeout of 2 s, and the next one begins up to 10.5 s later. */
const secondAttempt = 17.5

export const boundOf = ({ fault, nodes, state }: Outcome, calm: number) => {
  // No other node can replace a single node.
  const bound = nodes === 1 ? general : (state === "queued" ? queued[fault] : undefined) ?? bounds[fault] ?? general
  return bound + (state === "delivering" ? secondAttempt : calm)
}
