/** A slice of `npm run chaos`. */
import { assert, describe, it } from "vitest"
import { runCell } from "../chaos/cell.ts"
import { makeWorld } from "../chaos/World.ts"
import { use } from "../kit/suite.ts"

const world = await use(makeWorld(2))

describe("two nodes behind a load balancer", () => {
  it.each(
    [
      ["lost-replies", "resuming"],
      ["kill", "dispatching"],
      ["term", "processing"],
      ["freeze", "pending"]
    ] as const
  )(
    "violate no invariant after the fault %s while tasks are %s",
    async (fault, state) => {
      const { acknowledged, details } = await runCell(world, fault, state, 1)
      assert.isAbove(acknowledged, 20)
      assert.isEmpty(details)
    }
  )
})
