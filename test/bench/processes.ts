/** CPU time and memory of processes, from /proc of Linux. */
import * as fs from "node:fs"

/** Milliseconds in a clock tick: Linux reports 100 ticks a second to user space. */
const tick = 10

/** The fields of /proc/PID/stat after the command's name, which may contain spaces. */
const statOf = (pid: number) => {
  const text = fs.readFileSync(`/proc/${pid}/stat`, "utf8")
  return text.slice(text.lastIndexOf(")") + 2).split(" ").map(Number)
}

/** CPU milliseconds of a process, all of its threads included. */
export const cpuOfProcess = (pid: number) => {
  const fields = statOf(pid)
  return (fields[11]! + fields[12]!) * tick
}

/** The same of a process and its children, those that have ended included. */
export const cpuOfTree = (pid: number) => {
  const fields = statOf(pid)
  const children = fs.readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8").split(" ").filter(Boolean).map(Number)
  let sum = (fields[11]! + fields[12]! + fields[13]! + fields[14]!) * tick
  for (const child of children) {
    try {
      sum += cpuOfProcess(child)
    } catch {
      // It has ended since; its parent counts it next time.
    }
  }
  return sum
}

/** Forgets the highest resident memory so far (proc(5), clear_refs). */
export const resetPeakMemory = (pid: number) => fs.writeFileSync(`/proc/${pid}/clear_refs`, "5")

const memoryOf = (pid: number, field: "VmRSS" | "VmHWM") =>
  Number(new RegExp(`${field}:\\s+(\\d+)`).exec(fs.readFileSync(`/proc/${pid}/status`, "utf8"))?.[1]) / 1024

/** The highest resident memory since then, in MiB. */
export const peakMemory = (pid: number) => memoryOf(pid, "VmHWM")

/** MiB. */
export const residentMemory = (pid: number) => memoryOf(pid, "VmRSS")
