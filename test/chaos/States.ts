/** The states that a fault may strike tasks in, each as what brings tasks there. */
import { hold } from "./Held.ts"
import { mix } from "./Mixed.ts"
import { stages } from "./Plan.ts"
import type { World } from "./World.ts"

/** `mixed` holds nothing: it is a load of everything. */
export const states = [...stages, "mixed"] as const
export type State = typeof states[number]

export interface Batch {
  /** Lets all go, once the fault has struck. */
  readonly release: () => void
  /** When all that was held had gone on to its right end, as seen from outside. */
  readonly moved: Promise<number>
}

export const arrange = (world: World, state: State): Promise<Batch> =>
  state === "mixed" ? mix(world) : hold(world, state)
