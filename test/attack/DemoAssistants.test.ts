import * as path from "node:path"
import { afterAll, assert, beforeAll, describe, it } from "vitest"
import { removeDirectory, temporaryDirectory } from "../kit/directories.ts"
import { mint } from "../kit/Service.ts"
import { startVictim, type Victim } from "./kit/Victim.ts"

const directory = temporaryDirectory()
let victim: Victim

beforeAll(async () => {
  victim = await startVictim({ CORE_URL: "", DATA_DIR: path.join(directory, "data"), MAX_ACTIVE_TASKS: "100" })
})

afterAll(async () => {
  await victim?.close()
  removeDirectory(directory)
})

/** The worst known texts for the assistants' patterns; the unit test of the assistants has all units. */
const units = ["?", ". ", "漢"]

describe("a text of a megabyte", () => {
  it.each([1, 2, 4, 500])("does not block the event loop in demo assistant %i", async (assistant_id) => {
    const token = await mint(`writer-${assistant_id}`)
    const { baseMemory, health, longestTurn, peakMemory } = await victim.observe(async () => {
      for (const unit of units) {
        const { body, status } = await victim.service.create(token, `x${unit.repeat(1_000_000 / unit.length)}x`, {
          assistant_id
        })
        assert.strictEqual(status, 201)
        await victim.service.until(token, body.uuid, assistant_id === 500 ? "failed" : "completed")
      }
    })
    assert.isBelow(longestTurn, 150)
    assert.isBelow(peakMemory - baseMemory, 300)
    assert.isBelow(health.at(-1) ?? 0, 1500)
  })
})
