import { assert, describe, it } from "vitest"
import { LoopbackServer } from "../kit/LoopbackServer.ts"
import { quantile } from "../kit/statistics.ts"
import { use } from "../kit/suite.ts"
import { startVictim } from "./kit/Victim.ts"

const sentAtMost = 512 * 1024 * 1024

const unsigned = (kid: string) =>
  [{ alg: "RS256", kid }, { sub: "ann", exp: 4_000_000_000 }, "signature"]
    .map((part) => Buffer.from(typeof part === "string" ? part : JSON.stringify(part)).toString("base64url")).join(".")

describe("a JWKS URL whose response never ends", async () => {
  let requests = 0
  let sent = 0
  const block = Buffer.alloc(64 * 1024, "[")
  const keys = await use(
    new LoopbackServer((_, response) => {
      requests += 1
      const send = () => {
        while (!response.destroyed && sent < sentAtMost) {
          sent += block.length
          if (!response.write(block)) return
        }
      }
      response.on("drain", send).on("error", () => {})
      send()
    }).listen()
  )
  const victim = await use(startVictim({ JWT_SECRET: "", JWT_JWKS_URL: keys.url }))

  const ask = async (kid: string) => (await victim.service.call("GET", "/api/tasks", unsigned(kid))).status

  it("takes little memory, and is requested once per cooldown, regardless of the keys that tokens name", async () => {
    const { baseMemory, health, longestTurn, peakMemory } = await victim.observe(async () => {
      for (let round = 0; round < 10; round++) {
        const statuses = await Promise.all(Array.from({ length: 100 }, (_, index) => ask(`${round}-${index}`)))
        assert.deepStrictEqual([...new Set(statuses)], [503])
      }
    })
    assert.isBelow(sent, 32 * 1024 * 1024)
    assert.isBelow(peakMemory - baseMemory, 150)
    // The node also requests it every ten seconds while the response is invalid.
    assert.isAtMost(requests, 8)
    assert.isBelow(longestTurn, 200)
    assert.isBelow(quantile(health, 0.9), 1000)
  })
})
