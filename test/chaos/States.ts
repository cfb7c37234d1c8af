/** The task states of the fault matrix, each with the code that brings tasks into it. */
import { hold } from "./Held.ts"
import { mix } from "./Mixed.ts"
import { type Batch, stages } from "./Plan.ts"
import { places, queue } from "./Queued.ts"
import type { World } from "./World.ts"

/** `mixed` and `queued` hold no tasks: they are a load of all actions, and one beyond CORE_RUNS. */
export const states = [...stages, "mixed", "queued"] as const
export type State = typeof states[number]

export const arrange = (world: World, state: State): Promise<Batch> =>
  state === "mixed" ? mix(world) : state === "queued" ? queue(world) : hold(world, state)

/** The settings of the nodes. A held task keeps its place, so that only \`queued\` has a limit. */
export const settingsOf = (state: State) => state === "queued" ? { CORE_RUNS: String(places) } : undefined
