import { afterAll, assert, beforeAll, describe, it } from "vitest"
import { mint } from "../kit/Service.ts"
import { startVictim, type Victim } from "./kit/Victim.ts"

describe("what an attack is measured with", () => {
  let victim: Victim

  beforeAll(async () => {
    victim = await startVictim()
  })
  afterAll(() => victim.close())

  it("sees memory, health and the longest turn of a service at work", async () => {
    const token = await mint("kit")
    const { baseMemory, health, longestTurn, peakMemory } = await victim.observe(async () => {
      for (let n = 0; n < 5; n++) await victim.service.call("GET", "/api/tasks", token)
    })
    assert.isAbove(baseMemory, 20)
    assert.isAtLeast(peakMemory, baseMemory - 1)
    assert.isAbove(health.length, 0)
    assert.isBelow(longestTurn, 1000)
  })
})
