/** A slice of `npm run chaos`. */
import { assert, describe, it, onTestFinished } from "vitest"
import { boundOf } from "../chaos/bounds.ts"
import { runCell } from "../chaos/cell.ts"
import { settingsOf } from "../chaos/States.ts"
import { makeWorld } from "../chaos/World.ts"
import { use } from "../kit/suite.ts"

const shared = await use(makeWorld(2))

describe("two nodes behind a load balancer", () => {
  it.each(
    [
      ["lost-replies", "resuming"],
      ["kill", "dispatching"],
      ["term", "processing"],
      ["freeze", "pending"],
      ["kill", "queued"],
      ["freeze", "queued"],
      ["cut", "queued"],
      ["lost-replies", "queued"]
    ] as const
  )(
    "violate no invariant after the fault %s while tasks are %s, and go on in time",
    async (fault, state) => {
      const settings = settingsOf(state)
      const world = settings === undefined ? shared : await use(makeWorld(2, settings), onTestFinished)
      const calm = await runCell(world, "none", state, 1)
      assert.isEmpty(calm.details)
      const outcome = await runCell(world, fault, state, 1)
      assert.isAbove(outcome.acknowledged, 20)
      assert.isEmpty(outcome.details)
      assert.isAtMost(outcome.worstRecovery, boundOf(outcome, calm.worstRecovery))
    },
    180_000
  )
})
