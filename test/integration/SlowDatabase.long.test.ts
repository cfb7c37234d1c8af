/** A slow database costs speed, never an outage. */
import { spawn } from "node:child_process"
import { assert, describe, it, onTestFinished } from "vitest"
import { measureSlowDatabase, type SlowDatabase } from "../attack/kit/slowDatabase.ts"
import { Proxy } from "../chaos/Proxy.ts"
import { settled } from "../kit/ClusterSystem.ts"
import { openDatabase } from "../kit/databases.ts"
import { pause } from "../kit/pause.ts"
import { eventually, freePort, internalToken, mint, Service } from "../kit/Service.ts"
import { use } from "../kit/suite.ts"

/** Milliseconds by which a busy machine may be late. */
const slack = 1000

/** An empty database behind a proxy. */
const far = async () => {
  const database = await use(openDatabase(), onTestFinished)
  const proxy = await use(Proxy.before(database.url), onTestFinished)
  return { proxy, url: proxy.urlOf(database.url) }
}

const startNode = (url: string) =>
  use(
    Service.start({ DATABASE_URL: url, CORE_URL: "http://127.0.0.1:1" }, undefined, undefined, undefined, 120_000),
    onTestFinished
  )

const millisecondsUntil = async ({ url }: Service, status: number) => {
  const startedAt = performance.now()
  await eventually(() => fetch(`${url}/readyz`), (response) => response.status === status, 60_000)
  return performance.now() - startedAt
}

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

  it.each<readonly [string, Omit<SlowDatabase, "duration">]>([
    ["is behind 1 Mbit/s, with bodies of 200 kB", { bytesPerSecond: 125_000, bodyBytes: 200_000, callers: 4 }],
    ["is 200 ms away from three nodes", { roundTrip: 200, nodes: 3, callers: 16 }]
  ])("%s takes all creates and stays ready in a cluster for longer than shards may lack an owner", async (_, link) => {
    const { url } = await use(openDatabase(), onTestFinished)
    const { creates, readiness } = await measureSlowDatabase(url, { duration: 40_000, isClustered: true, ...link })
    assert.deepStrictEqual([Object.keys(creates), Object.keys(readiness)], [["201"], ["200"]])
  }, 240_000)

  it.each([[200, 10_000], [400, 20_000]])(
    "is %i ms away starts on an empty database within %i ms",
    async (roundTrip, most) => {
      const { proxy, url } = await far()
      proxy.link.latency = roundTrip / 2
      const startedAt = performance.now()
      await startNode(url)
      assert.isBelow(performance.now() - startedAt, most)
    },
    120_000
  )

  it.each([[0, 0], [0, 700], [0, 3000], [600, 0], [1200, 0]])(
    "is %i ms away, with logins of %i ms, notices when it is gone, and when it is back",
    async (roundTrip, login) => {
      const { proxy, url } = await far()
      const service = await startNode(url)
      Object.assign(proxy.link, { latency: roundTrip / 2, login })
      const token = await mint("someone")
      // The service learns how far the database is.
      await pause(5000)
      for (const outage of [3000, 12_000]) {
        const end = proxy.swallow()
        const goneIn = await millisecondsUntil(service, 503)
        assert.isBelow(goneIn, Math.max(2000, 3 * roundTrip) + slack)
        const askedAt = performance.now()
        assert.strictEqual((await service.create(token, "Why?")).status, 503)
        assert.isBelow(performance.now() - askedAt, 1000)
        await pause(outage)
        end()
        // The monitor logs in, and then the pool. A login takes three round trips, and a statement one.
        const backIn = await millisecondsUntil(service, 200)
        assert.isBelow(backIn, 2000 + 2 * login + 7 * roundTrip + slack)
        assert.strictEqual((await service.create(token, "Why?")).status, 201)
      }
      const stoppedAt = performance.now()
      await service.stop()
      assert.isBelow(performance.now() - stoppedAt, 20_000)
    },
    180_000
  )

  it("was away for 10 s is ready again soon after, with two busy loops beside", async () => {
    const { proxy, url } = await far()
    const service = await startNode(url)
    const loops = [1, 2].map(() => spawn(process.execPath, ["-e", "for (;;);"]))
    onTestFinished(() => loops.forEach((loop) => loop.kill()))
    const restore = await proxy.refuse()
    await pause(10_000)
    assert.strictEqual((await fetch(`${service.url}/readyz`)).status, 503)
    await restore()
    const backIn = await millisecondsUntil(service, 200)
    assert.isBelow(backIn, 2000 + slack)
    assert.strictEqual((await service.create(await mint("someone"), "Why?")).status, 201)
  }, 60_000)

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
        const ready = await fetch(`${service.url}/readyz`)
        assert.strictEqual(ready.status, 200, await ready.text())
      }
      assert.strictEqual(await lost(), before)
      await settled([service])
    },
    300_000
  )
})
