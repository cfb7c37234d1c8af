/**
 * The cost of a task beside job queues: `npm run bench:peers -- [rounds] [seconds] [warmUp]` (3, 5 and 25).
 *
 * The contestants take turns within each round, each on a database of its own: this service as it is packaged, or with
 * `CHECKOUT=1` from its sources as `npm start` runs them, with the built-in core and with an external core that completes each
 * run immediately; and graphile-worker, pg-boss, DBOS and BullMQ behind the HTTP server of `queueShim.ts`, with jobs that do nothing.
 * All are as durable: Postgres waits for its log, and Redis for its own (`appendfsync always`). Without `redis-server` in the
 * path BullMQ is left out. CPU is that of the service and of its database; clients and the external core are not counted. Each
 * contestant first creates and polls for `warmUp` seconds, because V8 compiles for twenty seconds under this load: with 0 the
 * figures are those of a service that has just started. Compare ratios within one run only: all share the machine's cores. A
 * disk that stalls decides the p99 of 20 tasks/s. Then each contestant is killed (kill −9) with work on hand and started again. At last
 * another process of each, but for the built-in core, has results of 1 MB, which are stored and read.
 *
 * Prints the machine and the versions, medians, and the least and most of all rounds. `RESULTS=file.json` names the file of the raw
 * results, `.bench/peers-DATE.json` by default.
 */
import { spawn, spawnSync } from "node:child_process"
import { once } from "node:events"
import * as fs from "node:fs"
import { Agent, request } from "node:http"
import * as path from "node:path"
import pg from "postgres"
import { removeDirectory, temporaryDirectory } from "../kit/directories.ts"
import { freePort, mint, Service } from "../kit/Service.ts"
import { startPostgres } from "../kit/standalone.ts"
import { median, quantile } from "../kit/statistics.ts"
import { numbersOf, startScript } from "./bench.ts"
import { linesOf, machine } from "./machine.ts"
import { cpuOfProcess, cpuOfTree, peakMemory, resetPeakMemory } from "./processes.ts"

const { rounds, seconds, warmUp } = numbersOf({ rounds: 3, seconds: 5, warmUp: 25 })
const command = process.env["CHECKOUT"] === "1"
  ? ["--import", "./.check-node.js", "src/runtime/Main.ts"]
  : ["dist/bin/Cli.js", "serve"]
const clients = 32
const pollInterval = 10
const steadyRate = 20
const burst = 5000
const megabyte = 1024 * 1024

const contestants = ["built-in core", "external core", "graphile-worker", "pg-boss", "DBOS", "BullMQ"] as const
type Contestant = typeof contestants[number]
const hasRedis = spawnSync("redis-server", ["--version"]).status === 0
if (!hasRedis) console.error("redis-server is not installed: BullMQ is left out")
const present = contestants.filter((name) => name !== "BullMQ" || hasRedis)

/** Creates alone come last: they leave jobs behind that are still to be done. */
const loads = [`${steadyRate} tasks/s`, "create and poll", `burst of ${burst}`, "create only"] as const
const large = "create and poll, results of 1 MB"
type Load = typeof loads[number] | typeof large

interface Result {
  readonly perSecond: number
  readonly p50: number
  readonly p99: number
  /** Milliseconds of CPU for each task. */
  readonly service: number
  readonly database: number
  /** MiB. */
  readonly memory: number
}

const postgres = await startPostgres(["max_connections=200"])
const tokens = await Promise.all(Array.from({ length: clients }, (_, user) => mint(`user-${user}`)))
const task = JSON.stringify({ assistant_id: 1, input: [{ type: "text", text: "1 + 1" }] })
const agent = new Agent({ keepAlive: true, maxSockets: clients })

const pause = (milliseconds: number) => new Promise((resolve) => setTimeout(resolve, milliseconds))

const call = (url: string, token: string, method: string, address: string, body?: string) =>
  new Promise<{ readonly uuid: string; readonly status: string }>((resolve, reject) => {
    const headers = {
      authorization: `Bearer ${token}`,
      ...(body === undefined ? {} : { "content-type": "application/json" })
    }
    request(url + address, { agent, method, headers }, (response) => {
      let text = ""
      response.setEncoding("utf8").on("data", (chunk) => text += chunk).on("end", () => {
        if ((response.statusCode ?? 500) < 300) resolve(JSON.parse(text))
        else reject(new Error(`${method} ${address}: ${response.statusCode} ${text.slice(0, 200)}`))
      })
    }).on("error", reject).end(body)
  })

const create = async (url: string, token: string) => (await call(url, token, "POST", "/api/tasks", task)).uuid

const untilCompleted = async (url: string, token: string, uuid: string) => {
  for (;;) {
    const { status } = await call(url, token, "GET", `/api/tasks/${uuid}`)
    if (status === "completed") return
    if (status === "failed") throw new Error(`${uuid} failed`)
    await pause(pollInterval)
  }
}

const createAndPoll = async (url: string, seconds: number) => {
  const took: Array<number> = []
  const end = performance.now() + seconds * 1000
  await Promise.all(tokens.map(async (token) => {
    while (performance.now() < end) {
      const startedAt = performance.now()
      await untilCompleted(url, token, await create(url, token))
      took.push(performance.now() - startedAt)
    }
  }))
  return took
}

/** Runs a load and returns the milliseconds that each of its tasks took. */
const run: Readonly<Record<Load, (url: string) => Promise<ReadonlyArray<number>>>> = {
  "create and poll": (url) => createAndPoll(url, seconds),
  [large]: (url) => createAndPoll(url, seconds),
  "create only": async (url) => {
    const took: Array<number> = []
    const end = performance.now() + seconds * 1000
    await Promise.all(tokens.map(async (token) => {
      while (performance.now() < end) {
        const startedAt = performance.now()
        await create(url, token)
        took.push(performance.now() - startedAt)
      }
    }))
    return took
  },
  "20 tasks/s": async (url) => {
    const startedAt = performance.now()
    return Promise.all(Array.from({ length: steadyRate * seconds }, async (_, n) => {
      await pause(startedAt + n * 1000 / steadyRate - performance.now())
      const createdAt = performance.now()
      const token = tokens[n % clients]!
      await untilCompleted(url, token, await create(url, token))
      return performance.now() - createdAt
    }))
  },
  "burst of 5000": async (url) => {
    const startedAt = performance.now()
    const took: Array<number> = []
    await Promise.all(tokens.map(async (token, client) => {
      const uuids: Array<string> = []
      for (let n = client; n < burst; n += clients) uuids.push(await create(url, token))
      for (const uuid of uuids) {
        await untilCompleted(url, token, uuid)
        took.push(performance.now() - startedAt)
      }
    }))
    return took
  }
}

interface Running {
  readonly url: string
  readonly pid: number
  /** The process id of the database. */
  readonly database: number
  readonly stop: () => unknown
  /** Starts it again on its database, after it was killed. */
  readonly again: () => Promise<Running>
}

let databases = 0

/** On a directory of its own, with a log that is on disk before a command is answered. */
const startRedis = async () => {
  const directory = temporaryDirectory()
  const port = await freePort()
  const child = spawn("redis-server", [
    "--port",
    `${port}`,
    "--dir",
    directory,
    "--appendonly",
    "yes",
    "--appendfsync",
    "always",
    "--save",
    ""
  ], {
    stdio: "ignore"
  })
  process.once("exit", () => child.kill())
  return {
    url: `redis://127.0.0.1:${port}`,
    pid: child.pid!,
    stop: async () => {
      child.kill()
      await once(child, "exit")
      removeDirectory(directory)
    }
  }
}

/** `RESULT` is the size of a result in bytes. */
const start = async (contestant: Contestant, results: { readonly RESULT?: string } = {}): Promise<Running> => {
  if (contestant === "BullMQ") {
    const redis = await startRedis()
    const run = async (): Promise<Running> => {
      const shim = await startScript("queueShim.ts", { ...results, REDIS_URL: redis.url, QUEUE: contestant })
      const stop = async () => {
        shim.stop()
        await redis.stop()
      }
      return { url: shim.url, pid: shim.pid, database: redis.pid, stop, again: run }
    }
    return run()
  }
  const database = postgres.pid()
  const DATABASE_URL = await postgres.makeDatabase(`peers_${++databases}`)
  if (contestant !== "built-in core" && contestant !== "external core") {
    const run = async (): Promise<Running> => ({
      ...await startScript("queueShim.ts", { ...results, DATABASE_URL, QUEUE: contestant }),
      database,
      again: run
    })
    return run()
  }
  const core = contestant === "external core" ? await startScript("immediateCore.ts", results) : undefined
  const settings = {
    DATABASE_URL,
    MAX_ACTIVE_TASKS: "1000000",
    MODEL_RUNS: "1000000",
    LOG_LEVEL: "Warn",
    ...(core === undefined ? {} : { CORE_URL: core.url })
  }
  // The core reports runs where it was told to.
  const port = await freePort()
  const run = async (): Promise<Running> => {
    const service = await Service.start(settings, port, command)
    return {
      url: service.url,
      pid: service.process.pid!,
      database,
      stop: async () => {
        await service.stop()
        core?.stop()
      },
      again: run
    }
  }
  return run()
}

/** Tasks that a contestant has acknowledged when it is killed, and the seconds after which those that have not completed are lost. */
const held = 1000
const patience = 60

interface Kill {
  /** Seconds from the kill until it answers again, and until all tasks that complete have completed. */
  readonly answers: number
  readonly completes: number
  /** Acknowledged, and not completed in time. A deleted job counts as completed. */
  readonly missing: number
}

const kill = async (running: Running): Promise<readonly [Kill, Running]> => {
  const uuids = (await Promise.all(tokens.map(async (token, client) => {
    const own: Array<readonly [token: string, uuid: string]> = []
    for (let n = client; n < held; n += clients) own.push([token, await create(running.url, token)])
    return own
  }))).flat()
  const killedAt = performance.now()
  const since = () => (performance.now() - killedAt) / 1000
  process.kill(running.pid, "SIGKILL")
  const revived = await running.again()
  const answers = since()
  let completes = answers
  let missing = 0
  const end = Date.now() + patience * 1000
  for (const [token, uuid] of uuids) {
    const status = async () => (await call(revived.url, token, "GET", `/api/tasks/${uuid}`)).status
    let isCompleted = await status() === "completed"
    while (!isCompleted && Date.now() < end) {
      await pause(pollInterval)
      isCompleted = await status() === "completed"
    }
    if (isCompleted) completes = since()
    else missing++
  }
  return [{ answers, completes, missing }, revived]
}

const measure = async ({ database, pid, url }: Running, load: Load): Promise<Result> => {
  resetPeakMemory(pid)
  const before = { service: cpuOfProcess(pid), database: cpuOfTree(database), at: performance.now() }
  const took = await run[load](url)
  const elapsed = (performance.now() - before.at) / 1000
  return {
    perSecond: took.length / elapsed,
    p50: median(took),
    p99: quantile(took, 0.99),
    service: (cpuOfProcess(pid) - before.service) / took.length,
    database: (cpuOfTree(database) - before.database) / took.length,
    memory: peakMemory(pid)
  }
}

const admin = pg(postgres.url, { max: 1 })
const [{ server_version } = { server_version: "" }] = await admin<[{ server_version: string }]>`SHOW server_version`
await admin.end()
const here = machine(server_version, ["effect", "graphile-worker", "pg-boss", "@dbos-inc/dbos-sdk", "bullmq"])
console.log(`${linesOf(here)}\n`)

const results = new Map<string, Array<Result>>()
const kills = new Map<Contestant, Array<Kill>>()
for (let round = 1; round <= rounds; round++) {
  for (const contestant of present) {
    const note = async (running: Running, load: Load) => {
      const result = await measure(running, load)
      const key = `${load}\n${contestant}`
      results.set(key, [...(results.get(key) ?? []), result])
      console.error(`round ${round}, ${contestant}, ${load}: ${result.perSecond.toFixed(0)}/s`)
    }
    const running = await start(contestant)
    await createAndPoll(running.url, warmUp)
    for (const load of loads) await note(running, load)
    const [killed, revived] = await kill(running)
    kills.set(contestant, [...(kills.get(contestant) ?? []), killed])
    console.error(`round ${round}, ${contestant}, kill −9: ${killed.missing} of ${held} missing`)
    await revived.stop()
    if (contestant === "built-in core") continue
    const withResults = await start(contestant, { RESULT: `${megabyte}` })
    await createAndPoll(withResults.url, seconds)
    await note(withResults, large)
    await withResults.stop()
  }
}

console.log(`Medians of ${rounds} alternating rounds, ${seconds} s each; ${clients} clients`)
for (const load of [...loads, large] as const) {
  console.log(`\n${load}`)
  console.log(
    "                   tasks/s  least to most  of graphile   p50 ms   p99 ms  CPU ms/task: service  database   sum   RSS MiB"
  )
  const of = (contestant: Contestant, field: keyof Result) =>
    median((results.get(`${load}\n${contestant}`) ?? []).map((result) => result[field]))
  for (const contestant of present.filter((name) => results.has(`${load}\n${name}`))) {
    const each = (results.get(`${load}\n${contestant}`) ?? []).map(({ perSecond }) => perSecond)
    const [service, database] = [of(contestant, "service"), of(contestant, "database")]
    console.log([
      contestant.padEnd(16),
      of(contestant, "perSecond").toFixed(0).padStart(9),
      `${Math.min(...each).toFixed(0)} to ${Math.max(...each).toFixed(0)}`.padStart(14),
      (of(contestant, "perSecond") / of("graphile-worker", "perSecond")).toFixed(2).padStart(12),
      of(contestant, "p50").toFixed(1).padStart(8),
      of(contestant, "p99").toFixed(1).padStart(8),
      service.toFixed(2).padStart(21),
      database.toFixed(2).padStart(9),
      (service + database).toFixed(2).padStart(6),
      of(contestant, "memory").toFixed(0).padStart(8)
    ].join(" "))
  }
}
console.log(`\nkill −9 with ${held} acknowledged tasks, the worst of ${rounds} rounds`)
console.log("                 answers after s  all done after s  not done after a minute")
for (const contestant of present) {
  const worst = (field: keyof Kill) => Math.max(...(kills.get(contestant) ?? []).map((each) => each[field]))
  console.log([
    contestant.padEnd(16),
    worst("answers").toFixed(1).padStart(15),
    worst("completes").toFixed(1).padStart(17),
    String(worst("missing")).padStart(24)
  ].join(" "))
}
const file = process.env["RESULTS"] ?? `.bench/peers-${here.at.replaceAll(":", "")}.json`
fs.mkdirSync(path.dirname(path.resolve(file)), { recursive: true })
const raw = { ...here, rounds, seconds, warmUp, results: Object.fromEntries(results), kills: Object.fromEntries(kills) }
fs.writeFileSync(file, `${JSON.stringify(raw, undefined, 2)}\n`)
console.log(`\nRaw results: ${file}`)
await postgres.stop()
process.exit()
