/** A slice of `npm run chaos`. */
import { afterAll, assert, beforeAll, describe, it } from "vitest"
import { runCell } from "../chaos/cell.ts"
import type { Fault } from "../chaos/Faults.ts"
import type { State } from "../chaos/States.ts"
import { makeWorld, type World } from "../chaos/World.ts"

let world: World

beforeAll(async () => {
  world = await makeWorld(2)
})

afterAll(() => world.close())

describe("two nodes behind a load balancer", () => {
  for (
    const [fault, state] of [["lost-replies", "resuming"], ["kill", "handing over"]] satisfies Array<[Fault, State]>
  ) {
    it(`violate no invariant after the fault "${fault}" while tasks are ${state}`, async () => {
      const { acknowledged, details } = await runCell(world, fault, state, 1)
      assert.isAbove(acknowledged, 20)
      assert.isEmpty(details)
    })
  }
})
