/** A slice of `npm run simulate`. */
import { assert, describe, it } from "vitest"
import { mutations } from "./Mutations.ts"
import { simulate } from "./simulate.ts"

const slice = 30

describe("simulation", () => {
  it(`finds no violation in ${slice} seeds`, async () => {
    for (let seed = 1; seed <= slice; seed++) {
      const { timeline, violation } = await simulate(seed)
      assert.isUndefined(violation, `seed ${seed}\n${violation && timeline()}`)
    }
  })

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
