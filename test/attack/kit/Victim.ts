/** The service under attack: a separate process whose memory, event loop and `/healthz` are observed from outside. */
import * as fs from "node:fs"
import type { Readable } from "node:stream"
import { assert } from "vitest"
import { eventually } from "../../kit/Service.ts"
import { startSystem, type System } from "../../kit/System.ts"

export interface Observation {
  /** MiB of resident memory at the start of the observation. */
  readonly baseMemory: number
  /** Peak MiB of resident memory. */
  readonly peakMemory: number
  /** The longest interval between two timers of the main thread, in milliseconds of its CPU time. */
  readonly longestTurn: number
  /** Response times of `/healthz` in milliseconds, ascending; a failed call counts as 10,000. */
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

/** Checks the cost of one attack. `memory` is in MiB above the start. */
export const assertBounded = ({ baseMemory, health, longestTurn, peakMemory }: Observation, memory = 150) => {
  assert.isBelow(peakMemory - baseMemory, memory, "MiB")
  assert.isBelow(longestTurn, 150, "ms of the event loop")
  assert.isBelow(health.at(-1) ?? 0, 1500, "ms of /healthz")
}

export interface Victim extends System {
  /** Runs `attack` and reports the service's memory, event loop and health meanwhile. */
  readonly observe: (attack: () => Promise<unknown>) => Promise<Observation>
}

/** Starts the service with a scripted core on a new database. */
export const startVictim = async (settings: Readonly<Record<string, string>> = {}): Promise<Victim> => {
  const system = await startSystem(settings, ["--import", loopWatch, "src/runtime/Main.ts"])
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

  // The start itself has long turns: without one, nothing would be measured.
  await eventually(async () => longestTurn, (turn) => turn > 0)

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
    // After one more response, every long turn so far has been written.
    health.push(await askHealth())
    return {
      baseMemory,
      peakMemory: statusOf(pid, "VmHWM"),
      longestTurn,
      health: health.toSorted((one, other) => one - other)
    }
  }

  return { ...system, observe }
}
