/** A slice of `npm run simulate`. */
import { assert, describe, it } from "vitest"
import { amount } from "../kit/thorough.ts"
import { mutations } from "./Mutations.ts"
import { simulate } from "./simulate.ts"

const slice = amount(10, 100)

describe("simulation", () => {
  it(`finds no violation in ${slice} seeds`, async () => {
    for (let seed = 1; seed <= slice; seed++) {
      const { timeline, violation } = await simulate(seed)
      assert.isUndefined(violation, `seed ${seed}\n${violation && timeline()}`)
    }
  }, 600_000)

  it("finds a planted bug: the long suites plant the others", async () => {
    const { violation } = await simulate(1, mutations["a missing fence: events of earlier runs are applied"])
    assert.isDefined(violation)
  })

  it("produces the same timeline for the same seed", async () => {
    const [one, again, other] = [await simulate(7), await simulate(7), await simulate(8)]
    assert.strictEqual(one.timeline(), again.timeline())
    assert.notStrictEqual(one.timeline(), other.timeline())
  })
})
