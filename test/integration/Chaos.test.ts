/** A slice of `npm run chaos`. */
import { assert, describe, it } from "vitest"
import { type Fault, run } from "../chaos/chaos.ts"

describe("chaos", () => {
  for (const fault of ["kill", "stall", "lost-replies"] satisfies ReadonlyArray<Fault>) {
    it(`${fault}: nothing that was acknowledged is lost, stuck, ended twice or over the limit`, async () => {
      const report = await run(fault, 2)
      assert.isAbove(report.acknowledged, 0)
      assert.deepInclude(report, { lost: 0, twiceTerminal: 0, stuck: 0, overLimit: 0 })
    }, 180_000)
  }
})
