/** More tasks than the core may have at a time: whatever happens, it never has more, and soon as many again. */
import { randomUUID } from "node:crypto"
import { pause } from "../kit/pause.ts"
import { eventually } from "../kit/Service.ts"
import { happens } from "./chance.ts"
import type { Batch, Plan } from "./Plan.ts"
import type { World } from "./World.ts"

/** CORE_RUNS of the nodes. */
export const places = 8
const users = 10
/** Milliseconds for which places are watched after the fault: the longest one is a node that is frozen for 11 s. */
const watched = 12_000
/** Milliseconds. A place that was free for a shorter time has waited for an answer of the core, not for a node. */
const longestPause = 1000

export const queue = async ({ clients, core, rows }: World): Promise<Batch> => {
  const id = randomUUID()
  const plan = (): Plan => ({ gate: id, number: 0, hold: null, interrupts: happens(0.2), ends: "well", pace: 300 })
  let isOver = false
  const stopWatching = rows.watch(clients.recorder)
  const living = Promise.all(
    Array.from({ length: users }, (_, user) => clients.live(`user-${user}-${id}`, plan, 800, () => isOver))
  )
  await eventually(async () => core.live.size, (live) => live === places, 20_000)
  await pause(1000)
  const watch = async () => {
    const begun = performance.now()
    let [fullAt, usedAt] = [begun, begun]
    for (let at = begun; at < begun + watched; at = performance.now()) {
      if (core.live.size === places || !await rows.hasWaiting()) {
        if (at > fullAt + longestPause) usedAt = at
        fullAt = at
      }
      await pause(10)
    }
    const end = performance.now()
    isOver = true
    await living
    stopWatching()
    return end < fullAt + longestPause ? usedAt : end
  }
  const going = Promise.withResolvers<number>()
  return { release: () => void watch().then(going.resolve, going.reject), moved: going.promise }
}
