/** How the console shows costs. */
import { assert, describe, it } from "vitest"
import { money } from "../../../../src/http/console/usage/money.ts"

describe("money", () => {
  it("shows large costs to the cent, and two digits of small ones", () => {
    const shown = ["3801.0684675", "54.3749425", "0.5", "0.0985", "0.003", "0.00025", "0.0000000000000001", "0", null]
    assert.deepStrictEqual(
      shown.map(money),
      ["3,801.07", "54.37", "0.50", "0.099", "0.0030", "0.00025", "0.000000000000", "0.00", "–"]
    )
  })
})
