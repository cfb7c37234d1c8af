/** Many nodes on one database (CLUSTER=on), as clients and the core see them. */
import { afterEach, assert, describe, it, onTestFinished } from "vitest"
import { Proxy } from "../chaos/Proxy.ts"
import { selectShardCounts, settled, shardsOf, startCluster } from "../kit/ClusterSystem.ts"
import { complete as completeRun, interrupt } from "../kit/ScriptedCore.ts"
import { eventually, freePort, internalToken, mint, Service } from "../kit/Service.ts"
import { use } from "../kit/suite.ts"

const system = await use(startCluster({ MAX_ACTIVE_TASKS: "1000" }))
const first = system.service
const token = await mint("ann")
let others: Array<Service> = []

const join = async () => {
  const node = await system.startNode()
  others.push(node)
  return node
}

afterEach(async () => {
  system.core.onStart = () => 202
  for (const node of others) await node.stop()
  others = []
  await settled([first])
})

const createOn = async (node: Service, count: number) => {
  const created = await Promise.all(Array.from({ length: count }, () => node.create(token, "Why?")))
  return created.map(({ body, status }) => {
    assert.strictEqual(status, 201)
    return body.uuid as string
  })
}

const offersOf = (uuid: string) => system.core.runs.filter(({ task_id }) => task_id === uuid).length
const areOffered = (uuids: ReadonlyArray<string>, times: number) =>
  eventually(async () => uuids.every((uuid) => offersOf(uuid) >= times), (all) => all, 15_000)
const complete = async (uuids: ReadonlyArray<string>, node: Service) => {
  for (const uuid of uuids) {
    const done = await completeRun(system.core.runOf(uuid)!)
    assert.strictEqual(done.body["applied"], true)
    assert.strictEqual((await node.get(token, uuid)).body.status, "completed")
  }
}
const results = { results: [{ tool_call_id: "c1", output: 1 }] }

describe("nodes on one database", () => {
  it("dispatch each run once, whichever node it is created, resumed or reported on", async () => {
    const other = await join()
    const uuids = [...await createOn(first, 10), ...await createOn(other, 10)]
    await areOffered(uuids, 1)
    // All events go to the first node; the other one owns half of the tasks.
    for (const uuid of uuids) await interrupt(system.core.runOf(uuid)!)
    for (const [index, uuid] of uuids.entries()) {
      const node = index % 2 === 0 ? first : other
      const resumed = await node.call("POST", `/api/tasks/${uuid}/tool-results`, token, results)
      assert.strictEqual(resumed.status, 200)
    }
    await areOffered(uuids, 2)
    await complete(uuids, other)
    assert.deepStrictEqual(uuids.map(offersOf), uuids.map(() => 2))
    assert.deepStrictEqual(await settled([first, other]), [30, 30])
    for (const node of [first, other]) {
      const { body: metrics } = await node.call("GET", "/internal/metrics", internalToken)
      assert.match(metrics, /^task_active(\{.*\})? 0$/m)
    }
  })

  it("wake long polls and event streams on other nodes", async () => {
    const other = await join()
    const [uuid = ""] = await createOn(first, 1)
    await areOffered([uuid], 1)
    const waiting = other.call("GET", `/api/tasks/${uuid}?wait=30`, token)
    const streaming = other.call("GET", `/api/tasks/${uuid}/events`, token)
    await interrupt(system.core.runOf(uuid)!)
    assert.strictEqual((await waiting).body.status, "interrupted")
    await completeRun(system.core.runOf(uuid)!)
    await first.call("POST", `/api/tasks/${uuid}/cancel`, token)
    assert.match((await streaming).body, /canceled/)
  })

  it("take over the shards of a killed process before its lease of 4 s ends", async () => {
    const other = await join()
    await settled([first, other])
    await other.stop("SIGKILL")
    const counts = () => system.database.query<{ count: number }>(selectShardCounts)
    const found = await eventually(counts, ([{ count } = { count: 0 }]) => count === 60, 3900)
    assert.deepStrictEqual(found, [{ count: 60 }])
  })

  it("leave out only a node that neither accepts connections nor writes to the database", async () => {
    const { database } = system
    const held = async () =>
      (await database.query<{ count: number }>(selectShardCounts)).reduce((sum, { count }) => sum + count, 0)
    // Nothing listens on port 1.
    await database.query(`INSERT INTO cluster_runners (address, runner, last_heartbeat, healthy)
      SELECT '127.0.0.1:1', regexp_replace(runner, '"port":\\d+', '"port":1'), now(), true FROM cluster_runners LIMIT 1`)
    const alive = setInterval(
      () => void database.query("UPDATE cluster_runners SET last_heartbeat = now() WHERE address = '127.0.0.1:1'"),
      250
    )
    onTestFinished(() => clearInterval(alive))
    await eventually(held, (count) => count < 60)
    assert.isTrue(await eventually(held, (count) => count === 60, 2000).then(() => false, () => true))
    clearInterval(alive)
    await eventually(held, (count) => count === 60)
  })

  it("reassign shards although the database is slow for one node", async () => {
    const proxy = await Proxy.before(system.database.url)
    others.push(await system.startNode({ DATABASE_URL: proxy.urlOf(system.database.url) }))
    await settled([first, ...others])
    proxy.link.latency = 50
    await join()
    const counts = await eventually(
      () => Promise.all([first, ...others].map(shardsOf)),
      (owned) => owned.join() === "20,20,20",
      20_000
    )
    assert.deepStrictEqual(counts, [20, 20, 20])
    proxy.link.latency = 0
    await Promise.all(others.map((node) => node.stop()))
    await proxy.close()
  })

  it("enforce every deadline, whichever node owned the task", async () => {
    const other = await join()
    const { body } = await other.create(token, "Quick", { max_execution_time: 1 })
    await other.stop("SIGKILL")
    const task = await first.until(token, body.uuid, "failed", 3900)
    assert.strictEqual(task.body.error, "Task exceeded maximum execution time (1s)")
  })

  it("cannot share an address: the second one reports that and exits", async () => {
    const port = String(await freePort())
    const node = await Service.start({ ...system.settings, CLUSTER_PORT: port })
    others.push(node)
    const twin = await Service.start({ ...system.settings, CLUSTER_PORT: port }).catch(String)
    assert.match(String(twin), /exited with 1[^]*cannot listen[^]*EADDRINUSE/)
  })
})
