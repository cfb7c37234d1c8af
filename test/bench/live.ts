/**
 * The cost of live tasks for a node: start time, memory and create latency with many of them in the store, compared
 * with none. Run it with `node test/bench/live.ts [interrupted] [processing] [creates]`.
 */
import * as fs from "node:fs"
import postgres from "postgres"
import { ScriptedCore } from "../kit/ScriptedCore.ts"
import { mint, Service } from "../kit/Service.ts"
import { startPostgres } from "../kit/standalone.ts"

const interrupted = Number(process.argv[2] ?? 200_000)
const processing = Number(process.argv[3] ?? 0)
const creates = Number(process.argv[4] ?? 2000)
const concurrency = 8

const database = await startPostgres()
const { url } = database
const sql = postgres(url, { max: 1 })
const core = await new ScriptedCore().listen()
const settings = { DATABASE_URL: url, CORE_URL: core.url, MAX_ACTIVE_TASKS: "1000000" }

/** Megabytes. */
const memoryOf = ({ process: { pid } }: Service) => {
  const status = fs.readFileSync(`/proc/${pid}/status`, "utf8")
  return Number(/VmRSS:\s+(\d+) kB/.exec(status)?.[1]) / 1024
}

const quantile = (sorted: ReadonlyArray<number>, part: number) => sorted[Math.ceil(sorted.length * part) - 1] ?? 0

/** Milliseconds. */
const measureCreates = async (service: Service, user: string) => {
  const token = await mint(user)
  const times: Array<number> = []
  const one = async () => {
    const start = performance.now()
    const { status } = await service.create(token, "Why?")
    if (status !== 201) throw new Error(`create returned ${status}`)
    times.push(performance.now() - start)
  }
  const many = (count: number) =>
    Promise.all(Array.from({ length: concurrency }, async () => {
      for (let index = 0; index < count / concurrency; index++) await one()
    }))
  await many(500)
  times.length = 0
  await many(creates)
  times.sort((a, b) => a - b)
  return { p50: quantile(times, 0.5), p99: quantile(times, 0.99) }
}

const measure = async (name: string) => {
  const startedAt = performance.now()
  const service = await Service.start(settings)
  const start = (performance.now() - startedAt) / 1000
  const memory = memoryOf(service)
  const latency = await measureCreates(service, name)
  console.log(
    `${name.padEnd(6)} start ${start.toFixed(2)} s, ${memory.toFixed(0)} MB, create p50 ${
      latency.p50.toFixed(1)
    } ms, p99 ${latency.p99.toFixed(1)} ms`
  )
  await service.stop()
  return { start, memory, ...latency }
}

const fill = (status: "interrupted" | "processing", count: number) =>
  sql.unsafe(`
    WITH made AS (
      INSERT INTO tasks (
        uuid, sub, status, revision, run_id, pending_tool_calls, max_execution_time,
        created_at, deadline_at, token_id, token_issued_at
      )
      SELECT
        gen_random_uuid(), 'user-' || n / 5, '${status}', 2, gen_random_uuid(),
        CASE '${status}' WHEN 'interrupted' THEN '[{"id":"call-1","name":"look_up","arguments":{}}]' END,
        86400, now(), now() + interval '1 day', 'token', now()
      FROM generate_series(1, ${count}) AS n RETURNING uuid
    )
    INSERT INTO task_requests (task_uuid, request, user_token)
    SELECT uuid, '{"assistant_id":1,"input":[]}', (SELECT user_token FROM task_requests LIMIT 1) FROM made`)

const empty = await measure("empty")
const [sealed] = await sql`SELECT user_token FROM task_requests LIMIT 1`
await sql`DELETE FROM task_requests WHERE user_token <> ${sealed?.["user_token"]}`
await sql`DELETE FROM tasks`
await sql`DELETE FROM task_requests WHERE ctid <> (SELECT ctid FROM task_requests LIMIT 1)`
await fill("interrupted", interrupted)
await fill("processing", processing)
await sql.unsafe("VACUUM (ANALYZE) tasks")
const full = await measure("full")
const bytes = (full.memory - empty.memory) * 1024 * 1024 / (interrupted + processing)
console.log(
  `${interrupted} interrupted and ${processing} processing tasks: ${(full.start - empty.start).toFixed(2)} s more, ${
    bytes.toFixed(0)
  } bytes each, create p99 ${(full.p99 / empty.p99).toFixed(2)} times that of an empty node`
)

await sql.end()
await core.close()
await database.stop()
process.exit()
