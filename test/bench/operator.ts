/**
 * Measures the operator interface: first the first page of each call with 200,000 tasks of one day, 5,000 of them failed for 12 causes.
 * With more than 0 rows then pages through the tasks of all users and other searches in a large table, and create requests per
 * second with and without the two indexes of `tasks` that only operators need, alternately on the same database.
 */
import { internalToken } from "../kit/Service.ts"
import { fillStatements } from "../kit/UglyTasks.ts"
import { compare, inQuantiles, numbersOf, startBench } from "./bench.ts"
import { measureCreates } from "./creates.ts"
import { fill } from "./filledTasks.ts"

const { rounds, rows, seconds } = numbersOf({ rows: 1_000_000, rounds: 5, seconds: 5 })
// Retention must not delete rows while they are counted.
const bench = await startBench({ RETENTION: "90 days" })
const { sql } = bench
// A run would be kept for each task.
bench.core.respond = (request, response) => request.resume().on("end", () => response.writeHead(202).end())
// A start of the service creates the tables.
await (await bench.start()).stop()
const day = { tasks: 200_000, failures: 5000, sub: "marta@shop.example" }
for (const statement of fillStatements(day)) await sql.unsafe(statement)
await sql.unsafe("ANALYZE")
const service = await bench.start()

const read = async (address: string) => {
  const startedAt = performance.now()
  const { body, status } = await service.call("GET", `/internal/operator/${address}`, internalToken)
  if (status !== 200) throw new Error(`${address} returned ${status}: ${JSON.stringify(body)}`)
  return { body, time: performance.now() - startedAt }
}

const { body: { groups } } = await read("errors")
console.log(`${groups.length} causes of ${day.failures} failures; ${(await read("stuck")).body.total} stuck tasks`)
const [{ fingerprint, samples: [uuid] }] = groups
const minute = new Date(Math.floor(Date.now() / 60_000) * 60_000)
const hour = new Date(minute.getTime() - 3_600_000)
for (
  const address of [
    "overview",
    "tasks",
    "tasks?status=failed",
    "tasks?status=canceled",
    "tasks?status=processing",
    `tasks?sub=${day.sub}`,
    "tasks?q=nothing",
    "tasks?q=user-17",
    `tasks?q=${uuid.slice(0, 8)}`,
    `tasks?status=failed&fingerprint=${encodeURIComponent(fingerprint)}`,
    `tasks/${uuid}`,
    "errors",
    "stuck",
    "clocks",
    `history?step=60&from=${hour.toISOString()}&to=${minute.toISOString()}`,
    "origins",
    "deliveries",
    "cluster",
    "revocations",
    "schedules",
    "usage?group_by=sub&order=tokens&limit=20"
  ]
) {
  const times: Array<number> = []
  for (let count = 0; count < 10; count++) times.push((await read(address)).time)
  const most = Math.max(...times)
  console.log(`${most < 300 ? "" : "SLOW "}${address}: ${inQuantiles(times)}, most ${most.toFixed(0)} ms`)
}
if (rows === 0) {
  await service.stop()
  await bench.close()
}
await sql.unsafe("TRUNCATE tasks CASCADE")
await fill(sql, rows, 10_000)

const to = new Date(Date.now() + 3_600_000)
const range = `from=${new Date(to.getTime() - 31 * 86_400_000).toISOString()}&to=${to.toISOString()}`

/** Reads an address to the end of its pages. Prints how long the statements of a request took at most. */
const readAll = async (address: string) => {
  const times: Array<number> = []
  const seen = new Set<string>()
  let cursor = ""
  let incomplete = 0
  for (;;) {
    const startedAt = performance.now()
    const { body, status } = await service.call("GET", `/internal/operator/${address}${cursor}`, internalToken)
    times.push(performance.now() - startedAt)
    if (status !== 200) throw new Error(`${address} returned ${status}: ${JSON.stringify(body)}`)
    const data: ReadonlyArray<{ readonly uuid?: string }> = body.data ?? []
    for (const { uuid } of data) {
      if (uuid === undefined) continue
      if (seen.has(uuid)) throw new Error(`${uuid} is on two pages`)
      seen.add(uuid)
    }
    if (body.complete === false) incomplete++
    if ((body.next ?? null) === null) break
    cursor = `&cursor=${body.next}`
  }
  const pages = `${times.length} pages, ${incomplete} not full`
  console.log(
    `${address.split("&from")[0]}: ${seen.size} tasks, ${pages}, ${inQuantiles(times)}, most ${
      Math.max(...times).toFixed(0)
    } ms`
  )
  return seen.size
}

const total = await readAll(`tasks?limit=200&${range}`)
if (total !== rows) throw new Error(`${total} tasks instead of ${rows}`)
for (
  const query of [
    "tasks?limit=200&status=failed",
    "tasks?limit=200&status=canceled",
    "tasks?limit=200&status=interrupted",
    "tasks?limit=200&error=None",
    "tasks?limit=200&q=nothing",
    "errors?",
    "origins?",
    "deliveries?limit=200"
  ]
) await readAll(`${query}&${range}`)
for (const query of ["overview", "stuck", "clocks"]) await readAll(query)

const measure = () => measureCreates(service.url, service.process.pid!, seconds)

const createIndexes = async () => {
  await sql.unsafe("CREATE INDEX IF NOT EXISTS tasks_by_creation ON tasks (created_at, uuid) INCLUDE (status)")
  await sql.unsafe(
    "CREATE INDEX IF NOT EXISTS tasks_failed ON tasks (completed_at DESC, uuid DESC) WHERE status = 'failed'"
  )
}

await compare(
  "create",
  rounds,
  {
    name: "with the indexes",
    measure: async () => {
      await createIndexes()
      return await measure()
    }
  },
  {
    name: "without",
    measure: async () => {
      await sql.unsafe("DROP INDEX IF EXISTS tasks_by_creation, tasks_failed")
      return await measure()
    }
  }
)
await service.stop()
await bench.close()
