import { afterAll, assert, beforeAll, describe, it } from "vitest"
import { mint } from "../kit/Service.ts"
import { startVictim, type Victim } from "./kit/Victim.ts"

describe("the measurement of an attack", () => {
  let victim: Victim

  beforeAll(async () => {
    victim = await startVictim()
  })
  afterAll(() => victim.close())

  it("measures memory, health and the longest turn of a busy service", async () => {
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
