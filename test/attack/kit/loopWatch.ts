/**
 * Loaded before the service (`node --import`): writes one line per long turn of the event loop to file descriptor 3:
 * wall-clock milliseconds, a space, and the main thread's CPU milliseconds, which exclude other processes.
 */
import { writeSync } from "node:fs"

const interval = 5
/** Milliseconds of CPU time. Shorter turns are ordinary work. */
const threshold = 10

let lastWall = performance.now()
let lastCpu = process.threadCpuUsage()

setInterval(() => {
  const wall = performance.now()
  const { system, user } = process.threadCpuUsage(lastCpu)
  const cpu = (user + system) / 1000
  if (cpu > threshold) writeSync(3, `${Math.round(wall - lastWall)} ${Math.round(cpu)}\n`)
  lastWall = wall
  lastCpu = process.threadCpuUsage()
}, interval).unref()
