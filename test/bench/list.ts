/**
 * Latency of `GET /api/tasks` for a user with many tasks in a large table, over one keep-alive connection. Every
 * response is checked. Run it with `node test/bench/list.ts [rows] [ofUser] [requests]`.
 */
import { Agent, get } from "node:http"
import * as os from "node:os"
import * as path from "node:path"
import postgres from "postgres"
import { mint, Service } from "../kit/Service.ts"
import { startPostgres } from "../kit/standalone.ts"
import { fill, subOf } from "./filledTasks.ts"

const rows = Number(process.argv[2] ?? 5_000_000)
const ofUser = Number(process.argv[3] ?? 50_000)
const requests = Number(process.argv[4] ?? 300)

const database = await startPostgres()
const { url } = database
const settings = { DATABASE_URL: url, DATA_DIR: path.join(database.directory, "data") }
const sub = subOf(0)
const authorization = `Bearer ${await mint(sub)}`
const agent = new Agent({ keepAlive: true, maxSockets: 1 })

const fetchPage = (address: string) =>
  new Promise<{ readonly status: number | undefined; readonly text: string }>((resolve, reject) => {
    get(address, { agent, headers: { authorization } }, (response) => {
      let text = ""
      response.setEncoding("utf8").on("data", (chunk) => text += chunk)
      response.on("end", () => resolve({ status: response.statusCode, text })).on("error", reject)
    }).on("error", reject)
  })

const quantile = (sorted: ReadonlyArray<number>, part: number) =>
  (sorted[Math.ceil(sorted.length * part) - 1] ?? 0).toFixed(1)

/** Measures one address. Each response must report `total` and contain `count` rows. */
const measure = async (address: string, total: number, count: number) => {
  const times: Array<number> = []
  // The first requests warm up both sides, prepared statements included.
  for (let index = -50; index < requests; index++) {
    const start = performance.now()
    const { status, text } = await fetchPage(address)
    if (index >= 0) times.push(performance.now() - start)
    if (status !== 200) throw new Error(`${address} returned ${status}: ${text}`)
    const { data, meta } = JSON.parse(text)
    if (meta.total !== total || data.length !== count) {
      throw new Error(`${address}: ${data.length} of ${meta.total}, not ${count} of ${total}`)
    }
  }
  times.sort((a, b) => a - b)
  const { pathname, search } = new URL(address)
  console.log(
    `${(pathname + search).padEnd(44)} 200, ${String(count).padStart(3)} of ${String(total).padStart(5)}: p50 ${
      quantile(times, 0.5)
    } ms, p99 ${quantile(times, 0.99)} ms`
  )
}

try {
  // A start of the service creates the tables.
  await (await Service.start(settings)).stop()
  const sql = postgres(url, { max: 1, onnotice: () => {} })
  const started = performance.now()
  await fill(sql, rows, ofUser)
  console.log(`${rows} tasks, ${ofUser} of the user: filled in ${((performance.now() - started) / 1000).toFixed(0)} s`)
  const totals = await sql<Array<{ status: string; total: number }>>`
    SELECT status, count(*)::int AS total FROM tasks WHERE sub = ${sub} GROUP BY status`
  await sql.end()
  const totalOf = (status: string) => totals.find((row) => row.status === status)?.total ?? 0
  const all = totals.reduce((sum, { total }) => sum + total, 0)

  const service = await Service.start(settings)
  try {
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
  } finally {
    await service.stop()
  }
} finally {
  agent.destroy()
  await database.stop()
}
