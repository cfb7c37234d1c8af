/** The service under attack: a process of its own whose memory, event loop and `/healthz` are observed from outside. */
import * as fs from "node:fs"
import type { Readable } from "node:stream"
import { startSystem, type System } from "../../kit/System.ts"

export interface Observation {
  /** MiB of resident memory when the observation began. */
  readonly baseMemory: number
  /** MiB of resident memory at its highest. */
  readonly peakMemory: number
  /** The longest stretch between two timers of the main thread, in milliseconds of its own CPU time. */
  readonly longestTurn: number
  /** Milliseconds that `/healthz` took, ascending; a call that fails counts as 10,000. */
  readonly health: ReadonlyArray<number>
}

const loopWatch = `${import.meta.dirname}/loopWatch.ts`
const mebibyte = 1024

const statusOf = (pid: number, field: "VmRSS" | "VmHWM") =>
  Math.round(
    Number(new RegExp(`${field}:\\s+(\\d+)`).exec(fs.readFileSync(`/proc/${pid}/status`, "utf8"))?.[1]) / mebibyte
  )

const healthInterval = 50
const healthTimeout = 10_000

export const percentile = (sorted: ReadonlyArray<number>, share: number) =>
  sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0

export interface Victim extends System {
  readonly pid: number
  /** MiB of resident memory now. */
  readonly memory: () => number
  /** Runs `attack` and reports what the service went through meanwhile. */
  readonly observe: (attack: () => Promise<unknown>) => Promise<Observation>
}

/** Starts the service with a scripted core on a database of its own. `flags` are for Node, such as a smaller heap. */
export const startVictim = async (
  settings: Readonly<Record<string, string>> = {},
  flags: ReadonlyArray<string> = []
): Promise<Victim> => {
  const system = await startSystem(settings, ["--import", loopWatch, ...flags, "src/runtime/Main.ts"])
  const { service } = system
  const pid = service.process.pid!
  let longestTurn = 0
  const turns = service.process.stdio[3] as Readable
  turns.setEncoding("utf8")
  let rest = ""
  turns.on("data", (text: string) => {
    const lines = (rest + text).split("\n")
    rest = lines.pop() ?? ""
    for (const line of lines) longestTurn = Math.max(longestTurn, Number(line.split(" ")[1]))
  })

  const askHealth = async () => {
    const startedAt = performance.now()
    const isWell = await fetch(`${service.url}/healthz`, { signal: AbortSignal.timeout(healthTimeout) })
      .then(async (response) => (await response.text(), response.status === 200), () => false)
    return isWell ? performance.now() - startedAt : healthTimeout
  }

  const observe = async (attack: () => Promise<unknown>): Promise<Observation> => {
    longestTurn = 0
    // Resets the high-water mark of the process's memory (proc(5)).
    fs.writeFileSync(`/proc/${pid}/clear_refs`, "5")
    const baseMemory = statusOf(pid, "VmRSS")
    const health: Array<number> = []
    const over = new AbortController()
    const sampling = (async () => {
      while (!over.signal.aborted) {
        health.push(await askHealth())
        await new Promise((resolve) => setTimeout(resolve, healthInterval))
      }
    })()
    try {
      await attack()
    } finally {
      over.abort()
      await sampling
    }
    // One more answer: what blocked the loop until now has been written by then.
    health.push(await askHealth())
    return {
      baseMemory,
      peakMemory: statusOf(pid, "VmHWM"),
      longestTurn,
      health: health.toSorted((one, other) => one - other)
    }
  }

  return { ...system, pid, memory: () => statusOf(pid, "VmRSS"), observe }
}
