import * as path from "node:path"
import { assert, describe, it } from "vitest"
import { mint } from "../kit/Service.ts"
import { use, useDirectory } from "../kit/suite.ts"
import { assertBounded, startVictim } from "./kit/Victim.ts"

const DATA_DIR = path.join(useDirectory(), "data")
const victim = await use(startVictim({ CORE_URL: "", DATA_DIR, MAX_ACTIVE_TASKS: "100" }))

/** The worst known texts for the assistants' patterns; the unit test of the assistants has all units. */
const units = ["?", ". ", "漢"]

describe("a text of a megabyte", () => {
  it.each([1, 2, 4, 500])("does not block the event loop in demo assistant %i", async (assistant_id) => {
    const token = await mint(`writer-${assistant_id}`)
    const observed = await victim.observe(async () => {
      for (const unit of units) {
        const { body, status } = await victim.service.create(token, `x${unit.repeat(1_000_000 / unit.length)}x`, {
          assistant_id
        })
        assert.strictEqual(status, 201)
        await victim.service.until(token, body.uuid, assistant_id === 500 ? "failed" : "completed")
      }
    })
    assertBounded(observed, 300)
  })
})
