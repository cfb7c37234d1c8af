/** A slice of `npm run chaos`. */
import { assert, describe, it, onTestFinished } from "vitest"
import { boundOf } from "../chaos/bounds.ts"
import { runCell } from "../chaos/cell.ts"
import type { Fault } from "../chaos/Faults.ts"
import { settingsOf, type State } from "../chaos/States.ts"
import { makeWorld, type World } from "../chaos/World.ts"
import { use } from "../kit/suite.ts"

const world = await use(makeWorld(2))

const expectKept = async (world: World, fault: Fault, state: State) => {
  const calm = await runCell(world, "none", state, 1)
  assert.isEmpty(calm.details)
  const outcome = await runCell(world, fault, state, 1)
  assert.isAbove(outcome.acknowledged, 20)
  assert.isEmpty(outcome.details)
  assert.isAtMost(outcome.worstRecovery, boundOf(outcome, calm.worstRecovery))
}

describe("two nodes behind a load balancer", () => {
  it.each(
    [
      ["lost-replies", "resuming"],
      ["kill", "dispatching"],
      ["term", "processing"],
      ["freeze", "pending"]
    ] as const
  )(
    "violate no invariant after the fault %s while tasks are %s, and go on in time",
    (fault, state) => expectKept(world, fault, state),
    120_000
  )

  it.each(["kill", "freeze", "cut", "lost-replies"] as const)(
    "exceed no limit after the fault %s, and use all places again",
    async (fault) => {
      const limited = await use(makeWorld(2, settingsOf("queued")), onTestFinished)
      await expectKept(limited, fault, "queued")
    },
    180_000
  )
})
