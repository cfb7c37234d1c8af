/**
 * Live text: from an event of the core to its reader, on one node and on two, the CPU time of an append next to a server that only copies
 * it, and the memory of many readers of one task. The core sends one batch every 40 ms for all runs.
 */
import * as http from "node:http"
import { settled } from "../kit/ClusterSystem.ts"
import { pause } from "../kit/pause.ts"
import type { StartedRun } from "../kit/ScriptedCore.ts"
import { freePort, internalToken, mint, Service } from "../kit/Service.ts"
import { quantile } from "../kit/statistics.ts"
import { numbersOf, startBench, startScript } from "./bench.ts"
import { cpuOfProcess, peakMemory, resetPeakMemory, residentMemory } from "./processes.ts"

const { perSecond, readers, runs, seconds } = numbersOf({ runs: 200, perSecond: 20, seconds: 15, readers: 1000 })
/** Seconds before a measurement. */
const warmUp = 5
/** Milliseconds. */
const batchInterval = 40

const { close, core, database } = await startBench()
const token = await mint("reader")
const agent = new http.Agent({ keepAlive: true, maxSockets: Infinity })

const sendJson = (url: string, body: object) =>
  new Promise<{ readonly results: ReadonlyArray<{ readonly applied?: boolean }> }>((resolve, reject) => {
    const bytes = Buffer.from(JSON.stringify(body))
    http.request(url, {
      method: "POST",
      agent,
      headers: {
        authorization: `Bearer ${internalToken}`,
        "content-type": "application/json",
        "content-length": bytes.length
      }
    }, (response) => {
      const chunks: Array<Buffer> = []
      response.on("data", (chunk) => chunks.push(chunk)).on("end", () => {
        const text = Buffer.concat(chunks).toString()
        if (response.statusCode === 200) resolve(JSON.parse(text))
        else reject(new Error(`${response.statusCode} ${text.slice(0, 300)}`))
      })
    }).on("error", reject).end(bytes)
  })

/** Calls `onText` with the text of each event. */
const readText = (url: string, onText: (text: string) => void) =>
  new Promise<() => void>((resolve, reject) => {
    const request = http.get(url, { agent: false, headers: { authorization: `Bearer ${token}` } }, (response) => {
      if (response.statusCode !== 200) return reject(new Error(`a reader got ${response.statusCode}`))
      let rest = ""
      response.setEncoding("utf8").on("data", (chunk: string) => {
        const blocks = (rest + chunk).split("\n\n")
        rest = blocks.pop() ?? ""
        for (const block of blocks) {
          if (!block.includes("event: text")) continue
          onText(JSON.parse(block.slice(block.indexOf("data: ") + 6)).text)
        }
      })
      resolve(() => request.destroy())
    }).on("error", () => {})
  })

interface Target {
  /** The address of the readers of a run, and of events. */
  readonly readAt: (index: number, run: StartedRun) => string
  readonly reportAt: string
  readonly pids: ReadonlyArray<number>
}

/** Appends at the given rate, with the moment of each as its text. Returns latencies in milliseconds and the CPU time of an append. */
const measure = async (name: string, started: ReadonlyArray<StartedRun>, { pids, readAt, reportAt }: Target) => {
  const latencies: Array<number> = []
  let isMeasured = false
  const onText = (text: string) => {
    if (!isMeasured) return
    const now = performance.now()
    for (const sentAt of text.split(" ")) if (sentAt !== "") latencies.push(now - Number(sentAt))
  }
  const closers = await Promise.all(started.map((run, index) => readText(readAt(index, run), onText)))
  await pause(1000)
  const next = started.map(() => 0)
  const dueAt = started.map((_, index) => performance.now() + index * 1000 / perSecond / started.length)
  let count = 0
  const failures: Array<unknown> = []
  let sending: Promise<void> | undefined
  const tick = () => {
    // The next batch has what was written while the last one was on its way.
    if (sending !== undefined) return
    const now = performance.now()
    const events: Array<object> = []
    for (const [index, { run_id, task_id }] of started.entries()) {
      for (; dueAt[index]! <= now; dueAt[index]! += 1000 / perSecond) {
        const append = { index: next[index]!++, text: ` ${now.toFixed(1)}` }
        events.push({ task_id, run_id, event_id: `a${append.index}`, type: "progress", append })
      }
    }
    count += events.length
    if (events.length === 0) return
    sending = sendJson(reportAt, { events }).then(({ results }) => {
      const refused = results.find(({ applied }) => applied !== true)
      if (refused !== undefined) failures.push(new Error(`an append was refused: ${JSON.stringify(refused)}`))
    }, (error) => void failures.push(error)).finally(() => {
      sending = undefined
    })
  }
  const timer = setInterval(tick, batchInterval)
  await pause(warmUp * 1000)
  const cpu = () => pids.reduce((sum, pid) => sum + cpuOfProcess(pid), 0)
  const [cpuBefore, countBefore] = [cpu(), count]
  isMeasured = true
  await pause(seconds * 1000)
  isMeasured = false
  const [used, appends] = [cpu() - cpuBefore, count - countBefore]
  clearInterval(timer)
  await sending
  for (const end of closers) end()
  if (failures.length > 0) throw failures[0]
  const micros = used * 1000 / appends
  console.log(
    `${name}: ${appends} appends, ${latencies.length} read; p50 ${quantile(latencies, 0.5).toFixed(1)} ms, `
      + `p99 ${quantile(latencies, 0.99).toFixed(1)} ms, worst ${Math.max(...latencies).toFixed(0)} ms; `
      + `${micros.toFixed(0)} µs of CPU an append`
  )
  return micros
}

const begin = async (node: Service, count: number) => {
  const uuids: Array<string> = []
  for (let index = 0; index < count; index++) uuids.push((await node.create(token, "Why?")).body.uuid)
  const started = await Promise.all(uuids.map((uuid) => core.run(uuid)))
  return started
}

const startNodes = async (count: number) => {
  const DATABASE_URL = await database.makeDatabase(`stream_${count}`)
  const settings = {
    DATABASE_URL,
    CORE_URL: core.url,
    ACCEPTANCE_TIMEOUT: "1 hour",
    CLUSTER: count > 1 ? "on" : "off",
    MAX_ACTIVE_TASKS: "100000",
    LOG_LEVEL: "Warn"
  }
  const nodes: Array<Service> = []
  for (let index = 0; index < count; index++) {
    nodes.push(await Service.start({ ...settings, CLUSTER_PORT: String(await freePort()) }))
  }
  if (count > 1) await settled(nodes)
  return nodes
}

const eventsOf = ({ url }: Service) => `${url}/internal/core/events`
const textOf = ({ url }: Service, uuid: string) => `${url}/api/tasks/${uuid}/events?include=text`

const peer = await startScript("streamPeer.ts", {})
const [alone] = await startNodes(1)
const node = alone!
const started = await begin(node, runs)
const ours = await measure(`one node, ${runs} runs with a reader each`, started, {
  readAt: (_, { task_id }) => textOf(node, task_id),
  reportAt: eventsOf(node),
  pids: [node.process.pid!]
})
const theirs = await measure("a server that copies", started, {
  readAt: (_, { run_id }) => `${peer.url}/?run=${run_id}`,
  reportAt: peer.url,
  pids: [peer.pid]
})
console.log(`an append costs ${(ours / theirs).toFixed(1)} times a copy`)
peer.stop()

// Readers of one task.
const [shared] = await begin(node, 1)
const before = residentMemory(node.process.pid!)
resetPeakMemory(node.process.pid!)
let received = 0
const closers: Array<() => void> = []
for (let index = 0; index < readers; index++) {
  closers.push(await readText(textOf(node, shared!.task_id), ({ length }) => received += length))
}
const cpuBefore = cpuOfProcess(node.process.pid!)
const part = "some words of an answer, "
const appends = 200
for (let index = 0; index < appends; index++) {
  const { run_id, task_id } = shared!
  const event = { task_id, run_id, event_id: `a${index}`, type: "progress", append: { index, text: part } }
  await sendJson(eventsOf(node), event)
  await pause(50)
}
await pause(1000)
const cpu = (cpuOfProcess(node.process.pid!) - cpuBefore) * 1000 / appends
console.log(
  `${readers} readers of one task: ${(received / readers / part.length / appends * 100).toFixed(0)} % read, `
    + `${before.toFixed(0)} MiB before, ${(peakMemory(node.process.pid!) - before).toFixed(0)} MiB more, `
    + `${(cpu / readers).toFixed(1)} µs of CPU an append and reader`
)
for (const end of closers) end()
await node.stop()

const nodes = await startNodes(2)
const [first, second] = nodes as [Service, Service]
await measure(`two nodes, readers at one and tasks and events at the other`, await begin(first, runs), {
  readAt: (_, { task_id }) => textOf(second, task_id),
  reportAt: eventsOf(first),
  pids: nodes.map(({ process }) => process.pid!)
})
await measure("two nodes, events and readers at the one that does not own the tasks", await begin(first, runs), {
  readAt: (_, { task_id }) => textOf(second, task_id),
  reportAt: eventsOf(second),
  pids: nodes.map(({ process }) => process.pid!)
})
for (const each of nodes) await each.stop()
await close()
