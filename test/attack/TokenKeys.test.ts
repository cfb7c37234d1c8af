import { once } from "node:events"
import { createServer, type Server } from "node:http"
import type { AddressInfo } from "node:net"
import { afterAll, assert, beforeAll, describe, it } from "vitest"
import { percentile, startVictim, type Victim } from "./kit/Victim.ts"

const sentAtMost = 512 * 1024 * 1024

const unsigned = (kid: string) =>
  [{ alg: "RS256", kid }, { sub: "ann", exp: 4_000_000_000 }, "signature"]
    .map((part) => Buffer.from(typeof part === "string" ? part : JSON.stringify(part)).toString("base64url")).join(".")

describe("a JWKS URL whose response never ends", () => {
  let keys: Server
  let victim: Victim
  let requests = 0
  let sent = 0

  beforeAll(async () => {
    const block = Buffer.alloc(64 * 1024, "[")
    keys = createServer((_, response) => {
      requests += 1
      const send = () => {
        while (!response.destroyed && sent < sentAtMost) {
          sent += block.length
          if (!response.write(block)) return
        }
      }
      response.on("drain", send).on("error", () => {})
      send()
    }).listen(0, "127.0.0.1")
    await once(keys, "listening")
    const url = `http://127.0.0.1:${(keys.address() as AddressInfo).port}/keys`
    victim = await startVictim({ JWT_SECRET: "", JWT_JWKS_URL: url })
  })

  afterAll(async () => {
    await victim.close()
    keys.closeAllConnections()
    keys.close()
  })

  const ask = async (kid: string) => (await victim.service.call("GET", "/api/tasks", unsigned(kid))).status

  it("takes little memory", async () => {
    const { baseMemory, peakMemory } = await victim.observe(async () => {
      for (let n = 0; n < 100; n++) assert.strictEqual(await ask(`first-${n}`), 503)
    })
    assert.isBelow(sent, 32 * 1024 * 1024)
    assert.isBelow(peakMemory - baseMemory, 150)
  })

  it("is requested once per cooldown, regardless of the keys that tokens name", async () => {
    const { health, longestTurn } = await victim.observe(async () => {
      for (let round = 0; round < 10; round++) {
        const statuses = await Promise.all(Array.from({ length: 100 }, (_, index) => ask(`${round}-${index}`)))
        assert.deepStrictEqual([...new Set(statuses)], [503])
      }
    })
    // The node also requests it every ten seconds while the response is invalid.
    assert.isAtMost(requests, 8)
    assert.isBelow(longestTurn, 200)
    assert.isBelow(percentile(health, 0.9), 1000)
  })
})
