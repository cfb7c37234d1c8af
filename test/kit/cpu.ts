/**
 * CPU time of this thread in milliseconds. Unlike the time on a clock, other work on the machine hardly changes it: bounds on what a
 * hostile input costs are bounds on it.
 */
const now = () => {
  const { system, user } = process.threadCpuUsage()
  return (system + user) / 1000
}

/** A function that returns the CPU time since now. */
export const cpuTimer = () => {
  const begun = now()
  return () => now() - begun
}

export const cpuOf = (run: () => unknown): number => {
  const elapsed = cpuTimer()
  run()
  return elapsed()
}
