/** A slice of `npm run simulate`, and a check that the simulation finds each planted bug. */
import { assert, describe, it } from "vitest"
import { type Mutation, mutations } from "./Mutations.ts"
import { simulate } from "./simulate.ts"

const slice = 60
const maxSeeds = 150

describe("simulation", () => {
  it(`finds no violation in ${slice} seeds`, async () => {
    for (let seed = 1; seed <= slice; seed++) {
      const { timeline, violation } = await simulate(seed)
      assert.isUndefined(violation, `seed ${seed}\n${violation && timeline()}`)
    }
  })

  it("produces the same timeline for the same seed", async () => {
    const [one, again, other] = [await simulate(7), await simulate(7), await simulate(8)]
    assert.strictEqual(one.timeline(), again.timeline())
    assert.notStrictEqual(one.timeline(), other.timeline())
  })

  for (const [name, mutation] of Object.entries<Mutation>(mutations)) {
    it(`finds the planted bug: ${name}`, async () => {
      let isFound = false
      for (let seed = 1; seed <= maxSeeds && !isFound; seed++) {
        isFound = (await simulate(seed, mutation)).violation !== undefined
      }
      assert.isTrue(isFound, `not found in ${maxSeeds} seeds`)
    })
  }
})
