/** Senders of large bodies that stop in the middle: they hold memory, which others must still get. */
import { assert, describe, it } from "vitest"
import * as Limits from "../../src/domain/Limits.ts"
import { RawClient } from "../kit/RawClient.ts"
import { report, turnOf } from "../kit/ScriptedCore.ts"
import { mint } from "../kit/Service.ts"
import { use } from "../kit/suite.ts"
import { startVictim } from "./kit/Victim.ts"

const victim = await use(startVictim())

/** Starts a body that takes half of the memory for large bodies. */
const stall = async (user: string) => {
  const client = await RawClient.open(victim.service.url)
  return client.send(
    `POST /api/tasks HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${await mint(user)}\r\n`
      + `Content-Length: ${Limits.jsonBodyBytes}\r\n\r\n{"x":"${"x".repeat(100_000)}`
  )
}

describe("large bodies that stall", () => {
  it("lose their memory as soon as others wait for it", async () => {
    const text = "x".repeat(200_000)
    const { body } = await victim.service.create(await mint("creator"), "x")
    const run = await victim.runOf(body.uuid)
    const stalled = await Promise.all(Array.from({ length: 6 }, (_, n) => stall(`staller-${n}`)))

    const startedAt = performance.now()
    const created = await victim.service.create(await mint("patient"), text)
    const reported = await report(run, { type: "completed", turn: turnOf(text) })
    assert.deepStrictEqual([created.status, reported.status], [201, 200])
    assert.isBelow(performance.now() - startedAt, 30_000)
    assert.strictEqual((await stalled[0]!.answer()).status, 503)
    for (const client of stalled) client.close()
  })

  it("keep it while nobody waits", async () => {
    const stalled = await stall("alone")
    await new Promise((resolve) => setTimeout(resolve, 5000))
    assert.deepStrictEqual([stalled.ended, stalled.received], ["open", ""])
    stalled.close()
  })
})
