/** Crowds cost speed, never an outage. */
import { assert, describe, it, onTestFinished } from "vitest"
import { measureDeadlines } from "../attack/kit/deadlines.ts"
import { openDatabase } from "../kit/databases.ts"
import { use } from "../kit/suite.ts"

/** 100,000 have to end within 60 s: for 10,000 twice their share. */
describe("10,000 deadlines", () => {
  it("of one moment end soon after it, while other users are served", async () => {
    const database = await use(openDatabase(), onTestFinished)
    const { endedIn, others } = await measureDeadlines(database, { count: 10_000, seconds: 20 })
    assert.isBelow(endedIn, 12_000)
    assert.deepStrictEqual(others.statuses, [201])
    assert.isBelow(others.p99, 1000)
  }, 180_000)

  it("that passed before the start do not delay it", async () => {
    const database = await use(openDatabase(), onTestFinished)
    const { endedIn, startedIn } = await measureDeadlines(database, { count: 10_000, seconds: -60 })
    assert.isBelow(startedIn, 15_000)
    assert.isBelow(endedIn, 12_000)
  }, 180_000)
})
