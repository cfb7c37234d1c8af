/**
 * Latency from create to completed, as a long-polling client sees it, with one, two and three nodes and with one node
 * without a cluster; and the latency from a change on one node to a long poll on another. All nodes share this
 * machine's cores, so more nodes add no capacity here: the figures are the cost of the cluster.
 */
import { operate, settled } from "../kit/ClusterSystem.ts"
import { pause } from "../kit/pause.ts"
import { report, type StartedRun, turnOf } from "../kit/ScriptedCore.ts"
import { freePort, mint, Service } from "../kit/Service.ts"
import { inQuantiles, numbersOf, repeat, startBench, until } from "./bench.ts"

const { seconds, wakes } = numbersOf({ seconds: 10, wakes: 300 })
const clients = 64

const pick = <A>(items: ReadonlyArray<A>): A => items[Math.floor(Math.random() * items.length)]!

const at = (node: Service, run: StartedRun) => ({ ...run, events_url: `${node.url}/internal/core/events` })
const completed = { type: "completed", turn: turnOf("done") }

const { close, core, database } = await startBench()
const tokens = await Promise.all(Array.from({ length: clients }, (_, user) => mint(`user-${user}`)))

const startNodes = async (count: number, isClustered: boolean) => {
  const DATABASE_URL = await database.makeDatabase(`nodes_${count}_${isClustered ? "on" : "off"}`)
  const settings = { DATABASE_URL, CORE_URL: core.url, CLUSTER: isClustered ? "on" : "off", LOG_LEVEL: "Warn" }
  const nodes: Array<Service> = []
  for (let node = 0; node < count; node++) {
    nodes.push(await Service.start({ ...settings, CLUSTER_PORT: String(await freePort()) }))
  }
  if (isClustered) await settled(nodes[0]!, count)
  return nodes
}

const runTask = async (nodes: ReadonlyArray<Service>, token: string) => {
  const { body } = await pick(nodes).create(token, "Why?")
  const { body: task } = await pick(nodes).call("GET", `/api/tasks/${body.uuid}?wait=30`, token)
  if (task.status !== "completed") throw new Error(`${body.uuid} is ${task.status}`)
}

const measure = async (nodes: ReadonlyArray<Service>) => {
  core.onStart = (run) => {
    setImmediate(() => void report(at(pick(nodes), run), completed))
    return 202
  }
  let turn = 0
  const runOne = () => runTask(nodes, tokens[turn++ % clients]!)
  await repeat(clients, until(3000), runOne)
  const begun = performance.now()
  const took = await repeat(clients, until(seconds * 1000), runOne)
  return { perSecond: took.length / ((performance.now() - begun) / 1000), took }
}

/** Measures from the core's report to one node to the response of a long poll on another node. */
const measureWake = async (teller: Service, waiter: Service) => {
  core.onStart = () => 202
  const took: Array<number> = []
  for (let wake = 0; wake < wakes; wake++) {
    const { body } = await teller.create(tokens[0]!, "Why?")
    const run = await core.run(body.uuid)
    const waiting = waiter.call("GET", `/api/tasks/${body.uuid}?wait=30`, tokens[0]!)
    await pause(20)
    const reportedAt = performance.now()
    await report(at(teller, run), completed)
    await waiting
    took.push(performance.now() - reportedAt)
  }
  return took
}

let reference: number | undefined
for (const [count, isClustered] of [[1, false], [1, true], [2, true], [3, true]] as const) {
  const nodes = await startNodes(count, isClustered)
  const { perSecond, took } = await measure(nodes)
  reference ??= perSecond
  const name = `${count} ${count === 1 ? "node " : "nodes"}, CLUSTER=${isClustered ? "on " : "off"}`
  const ratio = (perSecond / reference).toFixed(2)
  console.log(`${name}: ${perSecond.toFixed(0)} tasks/s (${ratio}), create to completed ${inQuantiles(took)}`)
  if (count === 2) {
    console.log(`  a long poll on the same node:  ${inQuantiles(await measureWake(nodes[0]!, nodes[0]!))}`)
    console.log(`  a long poll on the other node: ${inQuantiles(await measureWake(nodes[0]!, nodes[1]!))}`)
  }
  if (isClustered) {
    const { members } = await operate(nodes[0]!, "Operations.cluster")
    console.log(`  shards: ${members.map(({ shards }) => shards?.length).join(", ")}`)
  }
  core.runs.length = 0
  for (const node of nodes) await node.stop()
}
await close()
