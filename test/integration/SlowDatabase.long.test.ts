/** A slow database costs speed, never an outage. */
import { assert, describe, it, onTestFinished } from "vitest"
import { measureSlowDatabase, type SlowDatabase } from "../attack/kit/slowDatabase.ts"
import { Proxy } from "../chaos/Proxy.ts"
import { settled } from "../kit/ClusterSystem.ts"
import { openDatabase } from "../kit/databases.ts"
import { pause } from "../kit/pause.ts"
import { eventually, freePort, internalToken, Service } from "../kit/Service.ts"
import { use } from "../kit/suite.ts"

describe("a service whose database", () => {
  it.each<readonly [string, Omit<SlowDatabase, "duration" | "callers">]>([
    ["is 600 ms away", { roundTrip: 600 }],
    ["is 1,200 ms away", { roundTrip: 1200 }],
    ["takes 3 s for a login", { login: 3000 }],
    ["is behind 1 Mbit/s, with bodies of 200 kB", { bytesPerSecond: 125_000, bodyBytes: 200_000 }]
  ])("%s takes all creates and stays ready", async (_, link) => {
    const { url } = await use(openDatabase(), onTestFinished)
    const { creates, readiness } = await measureSlowDatabase(url, { duration: 6000, callers: 4, ...link })
    assert.deepStrictEqual([Object.keys(creates), Object.keys(readiness)], [["201"], ["200"]])
  }, 180_000)

  it.each([1200, 0])(
    "is 1,200 ms away keeps the shard locks of its node, which was %i ms away at first",
    async (roundTrip) => {
      const database = await use(openDatabase(), onTestFinished)
      const proxy = await use(Proxy.before(database.url), onTestFinished)
      proxy.link.latency = roundTrip / 2
      const settings = {
        DATABASE_URL: proxy.urlOf(database.url),
        CORE_URL: "http://127.0.0.1:1",
        CLUSTER: "on",
        CLUSTER_PORT: String(await freePort())
      }
      const service = await Service.start(settings, undefined, undefined, undefined, 120_000)
      onTestFinished(() => service.stop())
      await settled([service], 60_000)
      if (roundTrip === 0) {
        proxy.link.latency = 600
        await eventually(
          async () => service.output,
          (output) => output.includes("The database is far away now"),
          60_000
        )
        await settled([service], 60_000)
        await eventually(() => fetch(`${service.url}/readyz`), ({ status }) => status === 200, 60_000)
      }
      const lost = async () => {
        const { body } = await service.call("GET", "/internal/metrics", internalToken)
        return Number(/^cluster_shard_reassignments_total\{[^}]*"lost"[^}]*\} (\d+)/m.exec(String(body))?.[1])
      }
      const before = await lost()
      for (let second = 0; second < 20; second++) {
        await pause(1000)
        assert.strictEqual((await fetch(`${service.url}/readyz`)).status, 200)
      }
      assert.strictEqual(await lost(), before)
      await settled([service])
    },
    300_000
  )
})
