/** Requests about a task with a large turn, of which a stranger with a token may send as many as connections allow. */
import { assert, describe, it } from "vitest"
import { pause } from "../kit/pause.ts"
import { RawClient } from "../kit/RawClient.ts"
import { interrupt, report, turnOf } from "../kit/ScriptedCore.ts"
import { mint } from "../kit/Service.ts"
import { use } from "../kit/suite.ts"
import { startVictim } from "./kit/Victim.ts"

const turnBytes = 12 * 1024 * 1024
const connections = 60
/** MiB; the turns alone have 720. */
const memory = 850

const victim = await use(startVictim())
const token = await mint("owner")
const uuid: string = (await victim.service.create(token, "x")).body.uuid
const run = await victim.runOf(uuid)
assert.strictEqual((await report(run, { type: "progress", turn: turnOf("x".repeat(turnBytes)) })).status, 200)
assert.strictEqual((await interrupt(run)).status, 200)

const open = async (line: string, rest = "\r\n") =>
  (await RawClient.open(victim.service.url)).send(
    `${line} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${token}\r\n${rest}`
  )

/** Another user's requests are answered in time, so everything before them has been processed or waits. */
const untilServed = async (requests: number) => {
  const other = await mint("other")
  for (let n = 0; n < requests; n++) {
    assert.strictEqual((await victim.service.call("GET", "/api/tasks", other)).status, 200)
    await pause(100)
  }
}

describe(`${connections} requests about a large turn`, () => {
  it.each(["cancel", "tool-results"])("take no memory while their bodies arrive: %s", async (operation) => {
    const { baseMemory, peakMemory } = await victim.observe(async () => {
      for (let n = 0; n < connections; n++) {
        await open(`POST /api/tasks/${uuid}/${operation}`, "Content-Length: 9\r\n\r\n{")
      }
      await untilServed(10)
    })
    assert.isBelow(peakMemory - baseMemory, 100)
  })

  it("take little memory while their responses are not read", async () => {
    const { health, peakMemory } = await victim.observe(async () => {
      for (let n = 0; n < connections; n++) (await open(`GET /api/tasks/${uuid}`)).socket.pause()
      await untilServed(40)
    })
    assert.isBelow(peakMemory, memory)
    assert.isBelow(health.at(-1) ?? 0, 1500)
  })

  it("are all answered, in little memory", async () => {
    const { peakMemory } = await victim.observe(async () => {
      const read = async () => {
        const response = await fetch(`${victim.service.url}/api/tasks/${uuid}`, {
          headers: { authorization: `Bearer ${token}` }
        })
        let bytes = 0
        for await (const chunk of response.body!) bytes += chunk.length
        return bytes
      }
      const sizes = await Promise.all(Array.from({ length: connections }, read))
      assert.isAbove(Math.min(...sizes), turnBytes)
    })
    assert.isBelow(peakMemory, memory)
  }, 120_000)
})
