/**
 * Create requests per second, compared with fastify and postgres.js doing the same insert and JWT check. Both run
 * alternately, each on its own database of one Postgres. Ours also dispatches every task to a core; the peer does not.
 */
import autocannon from "autocannon"
import { spawn } from "node:child_process"
import * as fs from "node:fs"
import { createServer } from "node:http"
import * as path from "node:path"
import { eventually, freePort, jwtSecret, mint, Service } from "../kit/Service.ts"
import { startPostgres } from "../kit/standalone.ts"

const rounds = Number(process.argv[2] ?? 5)
const seconds = Number(process.argv[3] ?? 5)
const users = 1000
const connections = 64

const database = await startPostgres()

/** A core that accepts every run and does nothing with it. */
const corePort = await freePort()
const core = createServer((request, response) => {
  request.resume().on("end", () => response.writeHead(202).end())
}).listen(corePort, "127.0.0.1")

const settings = { CORE_URL: `http://127.0.0.1:${corePort}`, MAX_ACTIVE_TASKS: "1000000", ACCEPTANCE_TIMEOUT: "1 hour" }
const ours = await Service.start({ ...settings, DATABASE_URL: await database.makeDatabase("ours") })

// The peer uses our schema, which a start of our service creates.
const peerDatabase = await database.makeDatabase("peer")
await (await Service.start({ ...settings, DATABASE_URL: peerDatabase })).stop()
const peerPort = await freePort()
const peerProcess = spawn(process.execPath, [path.join(import.meta.dirname, "peer.ts")], {
  env: {
    PATH: process.env["PATH"],
    NODE_ENV: "production",
    PORT: String(peerPort),
    DATABASE_URL: peerDatabase,
    JWT_SECRET: jwtSecret
  },
  stdio: "inherit"
})
await eventually(() => fetch(`http://127.0.0.1:${peerPort}/`).then(() => true, () => false), (up) => up)

const tokens = await Promise.all(Array.from({ length: users }, (_, n) => mint(`user-${n}`)))
const body = JSON.stringify({ assistant_id: 1, input: [{ type: "text", text: "What is 6 * 7?" }] })
const requests = tokens.map((token) => ({
  method: "POST" as const,
  path: "/api/tasks",
  headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
  body
}))

/** CPU time of a process in seconds; Linux only. */
const cpuOf = (pid: number | undefined) => {
  const stat = fs.readFileSync(`/proc/${pid}/stat`, "utf8").split(") ", 2)[1]?.split(" ") ?? []
  return (Number(stat[11]) + Number(stat[12])) / 100
}

const measure = async (url: string, pid: number | undefined, duration: number) => {
  const before = cpuOf(pid)
  const result = await autocannon({ url, connections, duration, requests })
  if (result.non2xx > 0 || result.errors > 0) throw new Error(`${result.non2xx} refused, ${result.errors} errors`)
  const cpu = ((cpuOf(pid) - before) / result["2xx"]) * 1_000_000
  return { perSecond: result.requests.average, p99: result.latency.p99, cpu }
}

const median = (values: ReadonlyArray<number>) => values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? 0

const measureOurs = (duration: number) => measure(ours.url, ours.process.pid, duration)
const measurePeer = (duration: number) => measure(`http://127.0.0.1:${peerPort}`, peerProcess.pid, duration)
await measureOurs(3)
await measurePeer(3)
const ratios: Array<number> = []
for (let round = 1; round <= rounds; round++) {
  const us = await measureOurs(seconds)
  const them = await measurePeer(seconds)
  ratios.push(us.perSecond / them.perSecond)
  console.log(
    `round ${round}: ours ${us.perSecond.toFixed(0)}/s, p99 ${us.p99} ms, ${us.cpu.toFixed(0)} µs CPU each; `
      + `fastify + postgres ${them.perSecond.toFixed(0)}/s, p99 ${them.p99} ms, ${them.cpu.toFixed(0)} µs; ratio ${
        (us.perSecond / them.perSecond).toFixed(2)
      }`
  )
}
console.log(`create: ${median(ratios).toFixed(2)} of fastify + postgres (median of ${rounds} alternating rounds)`)

peerProcess.kill()
await ours.stop()
core.close()
core.closeAllConnections()
await database.stop()
