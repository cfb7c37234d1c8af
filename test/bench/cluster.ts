/**
 * Tasks per second from create to completed, as long-polling clients see it: on one node with and without a cluster in
 * alternating rounds, with the CPU time of a task, then on two and three nodes; and the latency from a change on one node to a
 * long poll on another. All nodes share this machine's cores, so more nodes add no capacity here: the figures are the cost of
 * the cluster.
 */
import { settled, shardsOf } from "../kit/ClusterSystem.ts"
import { pause } from "../kit/pause.ts"
import { report, type StartedRun, turnOf } from "../kit/ScriptedCore.ts"
import { freePort, mint, Service } from "../kit/Service.ts"
import { median, quantile } from "../kit/statistics.ts"
import { inQuantiles, numbersOf, repeat, startBench, until } from "./bench.ts"
import { cpuOfProcess, cpuOfTree } from "./processes.ts"

const { maxNodes, rounds, seconds, wakes } = numbersOf({ rounds: 12, seconds: 2, maxNodes: 3, wakes: 300 })
/** Seconds of load before the first measurement. */
const warmUp = 3
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
  if (isClustered) await settled(nodes)
  return nodes
}

const runTask = async (nodes: ReadonlyArray<Service>, token: string) => {
  const { body } = await pick(nodes).create(token, "Why?")
  const { body: task } = await pick(nodes).call("GET", `/api/tasks/${body.uuid}?wait=30`, token)
  if (task.status !== "completed") throw new Error(`${body.uuid} is ${task.status}`)
}

let turn = 0

const load = async (nodes: ReadonlyArray<Service>, duration: number) => {
  core.onStart = (run) => {
    setImmediate(() => void report(at(pick(nodes), run), completed))
    return 202
  }
  const begun = performance.now()
  const took = await repeat(clients, until(duration * 1000), () => runTask(nodes, tokens[turn++ % clients]!))
  core.runs.length = 0
  return { perSecond: took.length / ((performance.now() - begun) / 1000), took }
}

/** Tasks per second, and CPU milliseconds of a task in the service and in the database. */
const measure = async (node: Service) => {
  const before = { service: cpuOfProcess(node.process.pid!), database: cpuOfTree(database.pid()) }
  const { perSecond, took } = await load([node], seconds)
  return {
    perSecond,
    service: (cpuOfProcess(node.process.pid!) - before.service) / took.length,
    database: (cpuOfTree(database.pid()) - before.database) / took.length
  }
}

type Result = Awaited<ReturnType<typeof measure>>

/** Returns the median of the tasks per second without a cluster. */
const measureOneNode = async () => {
  const [off, on] = [await startNodes(1, false), await startNodes(1, true)]
  await load(off, warmUp)
  await load(on, warmUp)
  const results: Array<{ readonly off: Result; readonly on: Result }> = []
  for (let round = 0; round < rounds; round++) {
    // The order changes, so that a drift of the machine's speed favors neither.
    const first = round % 2 === 0 ? off : on
    const one = await measure(first[0]!)
    const other = await measure((first === off ? on : off)[0]!)
    results.push(first === off ? { off: one, on: other } : { off: other, on: one })
  }
  for (const side of ["off", "on"] as const) {
    const of = (field: keyof Result) => median(results.map((result) => result[side][field]))
    console.log(
      `1 node,  CLUSTER=${side.padEnd(3)}: ${of("perSecond").toFixed(0)} tasks/s, CPU of a task `
        + `${of("service").toFixed(2)} ms in the service, ${of("database").toFixed(2)} ms in the database`
    )
  }
  const ratio = (of: (result: Result) => number) => {
    const ratios = results.map(({ off, on }) => of(on) / of(off))
    const [low, middle, high] = [0.25, 0.5, 0.75].map((share) => quantile(ratios, share).toFixed(3))
    return `${middle} (quartiles ${low} and ${high})`
  }
  console.log(
    `  on to off in ${rounds} pairs of rounds: ${ratio(({ perSecond }) => perSecond)} of the tasks/s, `
      + `${ratio(({ database, service }) => database + service)} of the CPU`
  )
  for (const node of [...off, ...on]) await node.stop()
  return median(results.map(({ off }) => off.perSecond))
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

const reference = await measureOneNode()
for (let count = 2; count <= maxNodes; count++) {
  const nodes = await startNodes(count, true)
  await load(nodes, warmUp)
  const { perSecond, took } = await load(nodes, 5 * seconds)
  const ratio = (perSecond / reference).toFixed(2)
  console.log(`${count} nodes: ${perSecond.toFixed(0)} tasks/s (${ratio}), create to completed ${inQuantiles(took)}`)
  if (count === 2) {
    console.log(`  a long poll on the same node:  ${inQuantiles(await measureWake(nodes[0]!, nodes[0]!))}`)
    console.log(`  a long poll on the other node: ${inQuantiles(await measureWake(nodes[0]!, nodes[1]!))}`)
  }
  console.log(`  shards: ${(await Promise.all(nodes.map(shardsOf))).join(", ")}`)
  core.runs.length = 0
  for (const node of nodes) await node.stop()
}
await close()
