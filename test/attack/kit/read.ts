import { spawn } from "node:child_process"
import { once } from "node:events"
import { text } from "node:stream/consumers"
import { assert } from "vitest"
import { pause } from "../../kit/pause.ts"
import type { Reads } from "./reader.ts"
import type { Victim } from "./Victim.ts"

/** Reads from a separate process. Calls `whenSent` after the requests were sent; returns the bytes of each body, -1 for one that was cut off. */
const read = async (reads: Reads, whenSent: () => Promise<unknown>): Promise<ReadonlyArray<number>> => {
  const child = spawn(process.execPath, [`${import.meta.dirname}/reader.ts`], { stdio: ["pipe", "pipe", "inherit"] })
  child.stdin.end(JSON.stringify(reads))
  await once(child.stdout, "readable")
  child.stdout.read("sent\n".length)
  const [output] = await Promise.all([text(child.stdout), whenSent()])
  return JSON.parse(output)
}

/** Requests that reach the service after the end receive the same. */
const untilMostWait = () => pause(2000)

/** Reads the paths, ends their task when most requests wait, and checks what that costs and the least bytes of a response. */
export const assertShared = async (
  { observe, service }: Victim,
  { paths, token }: Omit<Reads, "url">,
  least: number,
  end: () => Promise<unknown>
): Promise<void> => {
  let sizes: ReadonlyArray<number> = []
  const { health, longestTurn, peakMemory } = await observe(async () => {
    sizes = await read({ url: service.url, token, paths }, () => untilMostWait().then(end))
  })
  assert.isAbove(Math.min(...sizes), least)
  assert.isBelow(longestTurn, 50, "ms of the event loop")
  // The probes are measured by the clock, so that other processes delay the slowest of them.
  assert.isBelow(health[Math.floor(0.95 * health.length)] ?? 0, 100, "ms of /healthz")
  assert.isBelow(health.at(-1) ?? 0, 1500, "ms of /healthz")
  assert.isBelow(peakMemory, 600, "MiB")
}
