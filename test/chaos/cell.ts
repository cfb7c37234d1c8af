/** One cell of the matrix: a fault while tasks are in one state, for a number of rounds. */
import { randomUUID } from "node:crypto"
import { pause } from "../kit/pause.ts"
import { eventually, mint } from "../kit/Service.ts"
import { type Fault, strikes } from "./Faults.ts"
import { type Promised, promises } from "./Recorder.ts"
import { arrange, type State } from "./States.ts"
import type { World } from "./World.ts"

export interface Outcome {
  readonly fault: Fault
  readonly state: State
  readonly nodes: number
  readonly rounds: number
  readonly acknowledged: number
  /** The number of tasks, deliveries, stops or users that violate each invariant. */
  readonly broken: Readonly<Record<Promised, number>>
  /** Maximum seconds, over all rounds, from the fault until all held tasks had continued and a new create succeeded. */
  readonly worstRecovery: number
  /** Maximum lateness of a time limit, in seconds. */
  readonly worstLateness: number
  readonly details: ReadonlyArray<string>
}

export const isKept = ({ broken }: Outcome) => Object.values(broken).every((count) => count === 0)

const newcomer = { gate: "none", number: 0, hold: null, interrupts: false, ends: "well", pace: 0 } as const

export const runCell = async (
  world: World,
  fault: Fault,
  state: State,
  rounds: number,
  onRound: (round: number, seconds: number) => void = () => {}
): Promise<Outcome> => {
  const { clients, nodes, rows } = world
  const recorder = world.record()
  let worstRecovery = 0
  for (let round = 1; round <= rounds; round++) {
    const victim = nodes[round % nodes.length]!
    // A node that started just now takes its shards from the others, which would be a second fault.
    await eventually(() => rows.areDivided(nodes.length), (divided) => divided, 30_000)
    const token = await mint(`newcomer-${randomUUID()}`)
    const batch = await arrange(world, state)
    const struckAt = performance.now()
    const healed = strikes[fault](world, victim, batch.moved)
    // Other nodes detect the end of a process a moment later.
    await pause(50)
    batch.release()
    const served = clients.create({ token, plan: newcomer }).then(async (created) => {
      const at = performance.now()
      if (created !== undefined) await clients.follow(created)
      return at
    })
    const moments = await Promise.all([batch.moved, served])
    const recovery = (Math.max(...moments) - struckAt) / 1000
    worstRecovery = Math.max(worstRecovery, recovery)
    await healed
    await eventually(world.areReady, (ready) => ready, 30_000).catch(() => {
      recorder.broke("node", String(round), `not ready again: ${nodes.map(({ lastWords }) => lastWords).join("\n")}`)
    })
    onRound(round, recovery)
  }
  await rows.check(recorder)
  return {
    fault,
    state,
    nodes: nodes.length,
    rounds,
    acknowledged: recorder.acknowledged.size,
    broken: Object.fromEntries(promises.map((promise) => [promise, recorder.count(promise)])) as Outcome["broken"],
    worstRecovery,
    worstLateness: recorder.worstLateness,
    details: recorder.details
  }
}
