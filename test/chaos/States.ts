/** The task states of the fault matrix, each with the code that brings tasks into it. */
import { hold } from "./Held.ts"
import { mix } from "./Mixed.ts"
import { type Batch, stages } from "./Plan.ts"
import type { World } from "./World.ts"

/** `mixed` holds no tasks: it is a load of all actions. */
export const states = [...stages, "mixed"] as const
export type State = typeof states[number]

export const arrange = (world: World, state: State): Promise<Batch> =>
  state === "mixed" ? mix(world) : hold(world, state)
