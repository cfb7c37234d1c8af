/** Schedules on nodes that are killed between claim and create. `SEEDS=2000` runs more than the share of every test run. */
import { assert, describe, it } from "vitest"
import { amount } from "../../kit/thorough.ts"
import { planted, simulate } from "./simulate.ts"

const seeds = Number(process.env["SEEDS"] ?? amount(10, 500))

describe("schedules on nodes that die", () => {
  it("make exactly one task of each moment", { timeout: 1_800_000 }, async () => {
    for (let seed = 1; seed <= seeds; seed++) assert.isUndefined(await simulate(seed), `seed ${seed}`)
  })

  for (const [name, bug] of Object.entries(planted)) {
    it(`shows ${name}`, { timeout: 60_000 }, async () => {
      for (let seed = 1; seed <= 40; seed++) if (await simulate(seed, bug) !== undefined) return
      assert.fail("no seed shows it")
    })
  }
})
