/** Operators drain the nodes of a cluster and take them in, through any node. */
import { assert, describe, it, onTestFinished } from "vitest"
import { settled, shardsOf, startCluster } from "../../kit/ClusterSystem.ts"
import { complete } from "../../kit/ScriptedCore.ts"
import { eventually, mint, type Service } from "../../kit/Service.ts"
import { use } from "../../kit/suite.ts"
import { operatorCalls } from "./operatorCalls.ts"

const system = await use(startCluster())
const first = system.service
const token = await mint("ann")

const join = async () => {
  const node = await system.startNode()
  onTestFinished(async () => {
    await node.stop()
    await settled([first])
  })
  await settled([first, node])
  return node
}

interface Member {
  readonly instance: string
  readonly is_self: boolean
  readonly drained: boolean
  readonly tasks: number
}

const membersOf = async (node: Service): Promise<ReadonlyArray<Member>> =>
  (await operatorCalls(node).get("/cluster")).body.members

/** The id by which operators name a node. */
const instanceOf = async (node: Service) => (await membersOf(node)).find(({ is_self: isSelf }) => isSelf)?.instance

const readinessOf = (node: Service) => fetch(`${node.url}/readyz`)

describe("a node of a cluster", () => {
  it("that is drained serves requests, and its tasks continue on others", async () => {
    const other = await join()
    const instance = await instanceOf(other)
    const running = String((await other.create(token, "Why?")).body.uuid)
    await system.runOf(running)
    await operatorCalls(other).post(`/nodes/${instance}/drain`)
    await settled([first])
    await eventually(() => membersOf(first), (members) => members.filter(({ drained }) => drained).length === 1)
    const readiness = await readinessOf(other)
    assert.strictEqual(readiness.status, 503)
    assert.match(await readiness.text(), /drained/)
    const offers = async () => system.core.runs.filter(({ task_id }) => task_id === running)
    await eventually(offers, ({ length }) => length === 2)
    const created = String((await other.create(token, "Why?")).body.uuid)
    for (const uuid of [running, created]) {
      assert.isTrue((await complete(await system.runOf(uuid))).body["applied"])
      assert.strictEqual((await other.get(token, uuid)).body.status, "completed")
    }
    await eventually(() => membersOf(other), (members) => members.every(({ tasks }) => tasks === 0))
    await operatorCalls(other).post(`/nodes/${instance}/take-in`)
    await settled([first, other])
    assert.strictEqual((await readinessOf(other)).status, 200)
  })

  it("receives through any node what an operator wants it to be", async () => {
    const other = await join()
    const instance = await instanceOf(other)
    const ask = (path: string) => operatorCalls(first).post(`/nodes/${instance}/${path}`)
    assert.deepStrictEqual((await ask("drain")).body, { instance, wanted: "drained" })
    await settled([first])
    assert.strictEqual(await shardsOf(other), 0)
    assert.strictEqual((await readinessOf(other)).status, 503)
    assert.strictEqual((await ask("take-in")).status, 202)
    await settled([first, other])
    // The node clears the wish with its next report.
    const wanted = () => system.database.query("SELECT FROM nodes WHERE wanted IS NOT NULL")
    await eventually(wanted, (rows) => rows.length === 0)
  })
})
