/**
 * Latency of `GET /api/tasks` for a user with many tasks in a large table, over one keep-alive connection. Every
 * response is checked.
 */
import { Agent, get } from "node:http"
import * as os from "node:os"
import { text } from "node:stream/consumers"
import { mint } from "../kit/Service.ts"
import { inQuantiles, numbersOf, repeat, startBench } from "./bench.ts"
import { fill, subOf } from "./filledTasks.ts"

const { ofUser, requests, rows } = numbersOf({ rows: 5_000_000, ofUser: 50_000, requests: 300 })
const bench = await startBench()
const { sql } = bench
const sub = subOf(0)
const authorization = `Bearer ${await mint(sub)}`
const agent = new Agent({ keepAlive: true, maxSockets: 1 })

const fetchPage = (address: string) =>
  new Promise<{ readonly status: number | undefined; readonly page: string }>((resolve, reject) => {
    get(address, { agent, headers: { authorization } }, (response) => {
      text(response).then((page) => resolve({ status: response.statusCode, page }), reject)
    }).on("error", reject)
  })

/** Measures one address. Each response must report `total` and contain `count` rows. */
const measure = async (address: string, total: number, count: number) => {
  const one = async () => {
    const { page, status } = await fetchPage(address)
    if (status !== 200) throw new Error(`${address} returned ${status}: ${page}`)
    const { data, meta } = JSON.parse(page)
    if (meta.total !== total || data.length !== count) {
      throw new Error(`${address}: ${data.length} of ${meta.total}, not ${count} of ${total}`)
    }
  }
  // The first requests warm up both sides, prepared statements included.
  await repeat(1, (calls) => calls >= 50, one)
  const times = await repeat(1, (calls) => calls >= requests, one)
  const { pathname, search } = new URL(address)
  const counts = `${String(count).padStart(3)} of ${String(total).padStart(5)}`
  console.log(`${(pathname + search).padEnd(44)} 200, ${counts}: ${inQuantiles(times)}`)
}

// A start of the service creates the tables.
await (await bench.start()).stop()
const started = performance.now()
await fill(sql, rows, ofUser)
console.log(`${rows} tasks, ${ofUser} of the user: filled in ${((performance.now() - started) / 1000).toFixed(0)} s`)
const totals = await sql<Array<{ status: string; total: number }>>`
  SELECT status, count(*)::int AS total FROM tasks WHERE sub = ${sub} GROUP BY status`
const totalOf = (status: string) => totals.find((row) => row.status === status)?.total ?? 0
const all = totals.reduce((sum, { total }) => sum + total, 0)

const service = await bench.start()
const cases = [
  { query: "", page: 1, perPage: 25, total: all },
  { query: "?page=1000", page: 1000, perPage: 25, total: all },
  { query: "?page=1000000000", page: 1_000_000_000, perPage: 25, total: all },
  { query: "?status=failed", page: 1, perPage: 25, total: totalOf("failed") },
  { query: "?status=interrupted", page: 1, perPage: 25, total: totalOf("interrupted") },
  { query: "?per_page=100", page: 1, perPage: 100, total: all }
]
for (const { page, perPage, query, total } of cases) {
  const count = Math.min(perPage, Math.max(0, total - (page - 1) * perPage))
  await measure(`${service.url}/api/tasks${query}`, total, count)
}
console.log(`load average ${os.loadavg().map((load) => load.toFixed(2)).join(" ")} on ${os.cpus().length} cores`)
await service.stop()
agent.destroy()
await bench.close()
