/** The simulation finds each planted bug. */
import { assert, describe, it } from "vitest"
import { type Mutation, mutations } from "./Mutations.ts"
import { simulate } from "./simulate.ts"

const maxSeeds = 150

describe("the simulation", () => {
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
