/** Faults of a node, its network, the database or the core. Each effect ends when the fault has been undone. */
import { pause } from "../kit/pause.ts"
import type { Node } from "./Node.ts"
import type { World } from "./World.ts"

export const faults = [
  "none",
  "kill",
  "term",
  "freeze",
  "database",
  "outage",
  "distance",
  "stall",
  "cut",
  "lost-replies",
  "core-events",
  "twin",
  "snapshot"
] as const
export type Fault = typeof faults[number]

/** Their names in test/README.md. */
export const titles: Readonly<Record<Fault, string>> = {
  none: "none, for comparison",
  kill: "kill −9",
  term: "SIGTERM",
  freeze: "SIGSTOP, SIGCONT",
  database: "Postgres restarted `immediate`",
  outage: "database away for 5 s",
  distance: "database 600 ms away for 10 s",
  stall: "half-open connections",
  cut: "cut connections",
  "lost-replies": "lost replies to COMMIT",
  "core-events": "core events repeated, late, out of order",
  twin: "two nodes with one identity",
  snapshot: "an open snapshot and 15,000 webhooks"
}

/** Longer than any lease. */
const frozen = 11_000

const outage = 5000
const distant = 10_000

/** `recovered` completes when the tasks continue. If there is another node, the failed one stays away until then. */
type Strike = (world: World, victim: Node, recovered: Promise<unknown>) => Promise<unknown>

const endThenStart = (signal: NodeJS.Signals): Strike => async ({ clients, nodes }, victim, recovered) => {
  const exitCode = await victim.stop(signal)
  if (signal === "SIGTERM" && exitCode !== 0) {
    clients.recorder.broke("node", victim.name, `exited with ${exitCode} after ${signal}: ${victim.lastWords}`)
  }
  if (nodes.length > 1) await recovered
  await victim.start()
}

export const strikes: Readonly<Record<Fault, Strike>> = {
  none: async () => {},
  kill: endThenStart("SIGKILL"),
  term: endThenStart("SIGTERM"),
  freeze: async ({ nodes }, victim, recovered) => {
    victim.signal("SIGSTOP")
    await pause(frozen)
    if (nodes.length > 1) await recovered
    victim.signal("SIGCONT")
    // The frozen node now continues with its outdated state.
    await pause(2000)
  },
  database: ({ database }) => database.restartImmediately(),
  outage: async ({ nodes }) => {
    const restore = await Promise.all(nodes.map(({ proxy }) => proxy.refuse()))
    await pause(outage)
    for (const end of restore) await end()
  },
  distance: async ({ nodes }) => {
    for (const { proxy } of nodes) proxy.link.latency = 300
    await pause(distant)
    for (const { proxy } of nodes) proxy.link.latency = 0
  },
  stall: async (_, victim) => victim.proxy.silence(),
  cut: async ({ nodes }) => {
    for (const wait of [0, 100, 100]) {
      await pause(wait)
      for (const { proxy } of nodes) proxy.cut()
    }
  },
  "lost-replies": async ({ nodes }) => {
    for (const { proxy } of nodes) proxy.weather = "losing replies"
    await pause(300)
    for (const { proxy } of nodes) proxy.weather = "fair"
  },
  "core-events": async ({ core }, _, recovered) => {
    core.garble()
    await recovered
    await pause(500)
    core.ungarble()
  },
  twin: async (_, victim, recovered) => {
    const twin = await victim.startTwin()
    await recovered
    // The twin unregisters under the address of the other node.
    await twin.stop("SIGTERM")
  },
  snapshot: async ({ rows }, _, recovered) => {
    const close = await rows.keepSnapshot()
    await rows.sendWebhooks(15_000)
    await recovered
    await close()
  }
}
