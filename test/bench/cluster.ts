/**
 * Latency from create to completed, as a long-polling client sees it, with one, two and three nodes and with one node
 * without a cluster; and the latency from a change on one node to a long poll on another. All nodes share this
 * machine's cores, so more nodes add no capacity here: the figures are the cost of the cluster.
 */
import { operate, settled } from "../kit/ClusterSystem.ts"
import { report, ScriptedCore, type StartedRun, turnOf } from "../kit/ScriptedCore.ts"
import { eventually, freePort, mint, Service } from "../kit/Service.ts"
import { startPostgres } from "../kit/standalone.ts"

const seconds = Number(process.env["SECONDS"] ?? 10)
const clients = 64
const wakes = 300

const pick = <A>(items: ReadonlyArray<A>): A => items[Math.floor(Math.random() * items.length)]!
const percentile = (sorted: ReadonlyArray<number>, share: number) =>
  sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN
const format = (values: ReadonlyArray<number>) => {
  const sorted = values.toSorted((a, b) => a - b)
  return `p50 ${percentile(sorted, 0.5).toFixed(1)} ms, p99 ${percentile(sorted, 0.99).toFixed(1)} ms`
}

const at = (node: Service, run: StartedRun) => ({ ...run, events_url: `${node.url}/internal/core/events` })
const completed = { type: "completed", turn: turnOf("done") }

const database = await startPostgres()
const core = await new ScriptedCore().listen()
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
  const begun = performance.now()
  const { body } = await pick(nodes).create(token, "Why?")
  const { body: task } = await pick(nodes).call("GET", `/api/tasks/${body.uuid}?wait=30`, token)
  if (task.status !== "completed") throw new Error(`${body.uuid} is ${task.status}`)
  return performance.now() - begun
}

const measure = async (nodes: ReadonlyArray<Service>) => {
  core.onStart = (run) => {
    setImmediate(() => void report(at(pick(nodes), run), completed))
    return 202
  }
  const runFor = async (millis: number) => {
    const until = performance.now() + millis
    const took: Array<number> = []
    await Promise.all(tokens.map(async (token) => {
      while (performance.now() < until) took.push(await runTask(nodes, token))
    }))
    return took
  }
  await runFor(3000)
  const begun = performance.now()
  const took = await runFor(seconds * 1000)
  return { perSecond: took.length / ((performance.now() - begun) / 1000), took }
}

/** Measures from the core's report to one node to the response of a long poll on another node. */
const measureWake = async (teller: Service, waiter: Service) => {
  core.onStart = () => 202
  const took: Array<number> = []
  for (let wake = 0; wake < wakes; wake++) {
    const { body } = await teller.create(tokens[0]!, "Why?")
    const run = await eventually(async () => core.runOf(body.uuid), (found) => found !== undefined)
    const waiting = waiter.call("GET", `/api/tasks/${body.uuid}?wait=30`, tokens[0]!)
    await new Promise((resolve) => setTimeout(resolve, 20))
    const reportedAt = performance.now()
    await report(at(teller, run!), completed)
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
  console.log(
    `${name}: ${perSecond.toFixed(0)} tasks/s (${(perSecond / reference).toFixed(2)}), create to completed ${
      format(took)
    }`
  )
  if (count === 2) {
    console.log(`  a long poll on the same node:  ${format(await measureWake(nodes[0]!, nodes[0]!))}`)
    console.log(`  a long poll on the other node: ${format(await measureWake(nodes[0]!, nodes[1]!))}`)
  }
  if (isClustered) {
    const { members } = await operate(nodes[0]!, "Operations.cluster")
    console.log(`  shards: ${members.map(({ shards }) => shards?.length).join(", ")}`)
  }
  core.runs.length = 0
  for (const node of nodes) await node.stop()
}
await core.close()
await database.stop()
process.exit()
