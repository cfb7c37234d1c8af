/** Limits over all nodes of a cluster, and how soon a place that has become free is used. */
import { assert, describe, it, onTestFinished } from "vitest"
import { BusyCore } from "../kit/BusyCore.ts"
import { settled, startCluster } from "../kit/ClusterSystem.ts"
import { eventually, internalToken, mint, type Service } from "../kit/Service.ts"
import { median } from "../kit/statistics.ts"
import { use } from "../kit/suite.ts"

const start = async (limit: Readonly<Record<string, string>>) => {
  const core = await use(new BusyCore(1000, 700).listen(), onTestFinished) as BusyCore
  const settings = { MAX_ACTIVE_TASKS: "1000", CORE_URL: core.url, ...limit }
  return { ...await use(startCluster(settings), onTestFinished), core }
}

const createAll = async (nodes: ReadonlyArray<Service>, count: number) => {
  const token = await mint("ann")
  await Promise.all(Array.from({ length: count }, async (_, index) => {
    const { status } = await nodes[index % nodes.length]!.create(token, "x")
    assert.strictEqual(status, 201)
  }))
}

const allEnded = async ({ core, database }: Awaited<ReturnType<typeof start>>, count: number) => {
  await eventually(
    () => database.query<{ count: number }>("SELECT count(*)::int AS count FROM tasks WHERE status = 'completed'"),
    ([row]) => row?.count === count,
    60_000
  )
  assert.deepStrictEqual(await database.query("SELECT FROM waiting_runs"), [])
  assert.strictEqual(core.most, 4)
}

describe("a place that has become free", () => {
  it("is used immediately on one node", async () => {
    const system = await start({ CORE_RUNS: "4" })
    await createAll([system.service], 24)
    await allEnded(system, 24)
    // The sweep would use it after half a second. Other tests take time beside this one.
    assert.isBelow(median(system.core.freeTimes(4)), 350)
  })

  // The limit of an operator leaves the admission to the owner of the run, see the tests of `Admissions`.
  for (const limit of ["CORE_RUNS", "an operator"]) {
    it(`is used when the end and the run that waits belong to different nodes, with the limit of ${limit}`, async () => {
      const system = await start(limit === "CORE_RUNS" ? { CORE_RUNS: "4" } : {})
      const { service } = system
      if (limit !== "CORE_RUNS") {
        await service.call("PUT", "/internal/operator/queue/assistants/1", internalToken, { runs: 4 })
      }
      // All ends are reported to the first node.
      const other = await system.startNode({ PUBLIC_URL: service.url })
      onTestFinished(() => other.stop())
      await settled([service, other])
      const free: Array<number> = []
      for (const [index, [one, next]] of [[service, other], [other, service], [service, other]].entries()) {
        system.core.forget()
        await createAll([one!], 4)
        await eventually(async () => system.core.live.size, (live) => live === 4)
        await createAll([next!], 4)
        await allEnded(system, 8 * (index + 1))
        free.push(...system.core.freeTimes(4))
      }
      assert.lengthOf(free, 12)
      assert.isBelow(median(free), limit === "CORE_RUNS" ? 300 : 2000)
    })
  }
})
