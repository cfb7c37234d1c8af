/**
 * The cost of a task in two versions, in alternating rounds of one run: `npm run bench:versions -- OTHER [rounds] [seconds] [warmUp]`
 * (16, 2 and 24). OTHER is the folder of a checkout of the other version with its packages. Both run from their sources, each on a
 * database server of its own, with an external core that completes each run immediately, while 32 clients create and poll. CPU is that
 * of the service and of its database, in milliseconds a task.
 */
import { spawn } from "node:child_process"
import { Agent, request } from "node:http"
import * as path from "node:path"
import { processEnvironment } from "../kit/processEnvironment.ts"
import { eventually, freePort, internalToken, jwtSecret, mint } from "../kit/Service.ts"
import { startPostgres } from "../kit/standalone.ts"
import { median } from "../kit/statistics.ts"
import { startScript } from "./bench.ts"
import { cpuOfProcess, cpuOfTree, residentMemory } from "./processes.ts"

const [other = "", ...numbers] = process.argv.slice(2)
if (other === "" || other.startsWith("-")) {
  console.log("node test/bench/versions.ts OTHER [rounds = 16] [seconds = 2] [warmUp = 24]")
  process.exit(other === "--help" ? 0 : 2)
}
const [rounds = 16, seconds = 2, warmUp = 24] = numbers.map(Number)
const clients = 32
const pollInterval = 10

const agent = new Agent({ keepAlive: true, maxSockets: clients })
const tokens = await Promise.all(Array.from({ length: clients }, (_, user) => mint(`user-${user}`)))
const task = JSON.stringify({ assistant_id: 1, input: [{ type: "text", text: "1 + 1" }] })

const call = (url: string, token: string, method: string, body?: string) =>
  new Promise<{ readonly uuid: string; readonly status: string }>((resolve, reject) => {
    const headers = { authorization: `Bearer ${token}`, ...(body && { "content-type": "application/json" }) }
    request(url, { agent, method, headers }, (response) => {
      let text = ""
      response.setEncoding("utf8").on("data", (chunk) => text += chunk).on("end", () => {
        if ((response.statusCode ?? 500) < 300) resolve(JSON.parse(text))
        else reject(new Error(`${response.statusCode} ${text.slice(0, 200)}`))
      })
    }).on("error", reject).end(body)
  })

/** Creates and polls for a while; returns the number of tasks that completed. */
const load = async (url: string, duration: number) => {
  let completed = 0
  const end = performance.now() + duration * 1000
  await Promise.all(tokens.map(async (token) => {
    while (performance.now() < end) {
      const { uuid } = await call(`${url}/api/tasks`, token, "POST", task)
      while ((await call(`${url}/api/tasks/${uuid}`, token, "GET")).status !== "completed") {
        await new Promise((resolve) => setTimeout(resolve, pollInterval))
      }
      completed++
    }
  }))
  return completed
}

const start = async (name: string, folder: string) => {
  const database = await startPostgres()
  const core = await startScript("immediateCore.ts", {})
  const port = await freePort()
  const child = spawn(process.execPath, ["--import", "./.check-node.js", "src/runtime/Main.ts"], {
    cwd: folder,
    stdio: "ignore",
    env: {
      PATH: process.env["PATH"],
      ...processEnvironment,
      JWT_SECRET: jwtSecret,
      INTERNAL_TOKENS: internalToken,
      ENCRYPTION_KEY: Buffer.alloc(32, 7).toString("base64"),
      PORT: String(port),
      DATABASE_URL: database.url,
      CORE_URL: core.url,
      MAX_ACTIVE_TASKS: "1000000",
      LOG_LEVEL: "Warn"
    }
  })
  process.once("exit", () => child.kill("SIGKILL"))
  const url = `http://127.0.0.1:${port}`
  await eventually(
    () => fetch(`${url}/readyz`).then(({ ok }) => ok, () => false),
    (isReady) => isReady,
    60_000
  )
  return { name, url, pid: child.pid!, database }
}

const sides = [
  await start("this version", path.resolve(import.meta.dirname, "../..")),
  await start("the other", path.resolve(other))
]
// They take short turns from the beginning: V8 forgets code that was not used for long.
for (let warmed = 0; warmed < warmUp; warmed += seconds) {
  for (const { url } of sides) await load(url, seconds)
}

const costs = sides.map(() => ({
  service: [] as Array<number>,
  database: [] as Array<number>,
  perSecond: [] as Array<number>
}))
for (let round = 1; round <= rounds; round++) {
  for (const [index, { database, name, pid, url }] of sides.entries()) {
    const before = [cpuOfProcess(pid), cpuOfTree(database.pid())] as const
    const tasks = await load(url, seconds)
    const service = (cpuOfProcess(pid) - before[0]) / tasks
    const stored = (cpuOfTree(database.pid()) - before[1]) / tasks
    costs[index]!.service.push(service)
    costs[index]!.database.push(stored)
    costs[index]!.perSecond.push(tasks / seconds)
    console.log(
      `round ${round}: ${name}: ${(tasks / seconds).toFixed(0)}/s, CPU ${service.toFixed(2)} + ${stored.toFixed(2)} ms`
    )
  }
}
for (const [index, { name, pid }] of sides.entries()) {
  const { database, perSecond, service } = costs[index]!
  console.log(
    `${name}: ${median(perSecond).toFixed(0)}/s, CPU ${median(service).toFixed(3)} + ${
      median(database).toFixed(3)
    } ms a task, `
      + `${residentMemory(pid).toFixed(0)} MiB`
  )
}
const ratios = (part: "service" | "database") =>
  costs[0]![part].map((cost, round) => cost / costs[1]![part][round]!).toSorted((one, next) => one - next)
for (const part of ["service", "database"] as const) {
  const found = ratios(part)
  console.log(
    `${part}: ${median(found).toFixed(2)} of the other (${found[0]!.toFixed(2)} to ${found.at(-1)!.toFixed(2)})`
  )
}
process.exit()
