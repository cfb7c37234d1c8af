/** A slice of `npm run simulate`, and the proof that it finds what is planted. */
import { assert, describe, it } from "vitest"
import { type Mutation, mutations } from "./Mutations.ts"
import { simulate } from "./simulate.ts"

const slice = 60
const patience = 150

describe("simulation", () => {
  it(`keeps every promise in ${slice} seeds`, async () => {
    let failedByChance = 0
    for (let seed = 1; seed <= slice; seed++) {
      const { timeline, unlucky, violation } = await simulate(seed)
      assert.isUndefined(violation, `seed ${seed}\n${violation && timeline()}`)
      failedByChance += unlucky
    }
    assert.isAtMost(failedByChance, 1)
  })

  it("tells the same of the same seed", async () => {
    const [one, again, other] = [await simulate(7), await simulate(7), await simulate(8)]
    assert.strictEqual(one.timeline(), again.timeline())
    assert.notStrictEqual(one.timeline(), other.timeline())
  })

  for (const [name, mutation] of Object.entries<Mutation>(mutations)) {
    it(`finds ${name}`, async () => {
      let isFound = false
      for (let seed = 1; seed <= patience && !isFound; seed++) {
        isFound = (await simulate(seed, mutation)).violation !== undefined
      }
      assert.isTrue(isFound, `not found in ${patience} seeds`)
    })
  }
})
