/**
 * Create requests per second, compared with fastify and postgres.js doing the same insert and JWT check. Both run
 * alternately, each on its own database of one Postgres. Ours also dispatches every task to a core; the peer does not.
 */
import autocannon from "autocannon"
import { jwtSecret, mint, Service } from "../kit/Service.ts"
import { compare, numbersOf, startBench, startScript } from "./bench.ts"
import { cpuOfProcess } from "./processes.ts"

const { rounds, seconds } = numbersOf({ rounds: 5, seconds: 5 })
const users = 1000
const connections = 64

const bench = await startBench()
// A run would be kept for each task.
bench.core.respond = (request, response) => request.resume().on("end", () => response.writeHead(202).end())
const ours = await bench.start()

// The peer uses our schema, which a start of our service creates.
const DATABASE_URL = await bench.database.makeDatabase("peer")
await (await Service.start({ DATABASE_URL, CORE_URL: bench.core.url })).stop()
const peer = await startScript("peer.ts", { DATABASE_URL, JWT_SECRET: jwtSecret })

const tokens = await Promise.all(Array.from({ length: users }, (_, n) => mint(`user-${n}`)))
const body = JSON.stringify({ assistant_id: 1, input: [{ type: "text", text: "What is 6 * 7?" }] })
const requests = tokens.map((token) => ({
  method: "POST" as const,
  path: "/api/tasks",
  headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
  body
}))

const measure = async (url: string, pid: number) => {
  const before = cpuOfProcess(pid)
  const result = await autocannon({ url, connections, duration: seconds, requests })
  if (result.non2xx > 0 || result.errors > 0) throw new Error(`${result.non2xx} refused, ${result.errors} errors`)
  const cpu = (cpuOfProcess(pid) - before) / result["2xx"] * 1000
  const rate = result.requests.average
  return { rate, text: `${rate.toFixed(0)}/s, p99 ${result.latency.p99} ms, ${cpu.toFixed(0)} µs CPU each` }
}

await compare(
  "create",
  rounds,
  { name: "ours", measure: () => measure(ours.url, ours.process.pid!) },
  { name: "fastify + postgres", measure: () => measure(peer.url, peer.pid) }
)
peer.stop()
await ours.stop()
await bench.close()
