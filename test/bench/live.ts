/**
 * The cost of live tasks for a node: start time, memory and create latency with many of them in the store, compared
 * with none.
 */
import { mint } from "../kit/Service.ts"
import { quantile } from "../kit/statistics.ts"
import { inQuantiles, numbersOf, repeat, startBench } from "./bench.ts"
import { peakMemory, residentMemory } from "./processes.ts"

const { creates, interrupted, processing } = numbersOf({ interrupted: 200_000, processing: 0, creates: 2000 })
const concurrency = 8

const bench = await startBench()
const { sql } = bench

const measure = async (name: string) => {
  const startedAt = performance.now()
  const service = await bench.start()
  const start = (performance.now() - startedAt) / 1000
  const memory = residentMemory(service.process.pid!)
  const token = await mint(name)
  const create = async () => {
    const { status } = await service.create(token, "Why?")
    if (status !== 201) throw new Error(`create returned ${status}`)
  }
  await repeat(concurrency, (calls) => calls >= 500, create)
  const times = await repeat(concurrency, (calls) => calls >= creates, create)
  const peak = peakMemory(service.process.pid!)
  console.log(
    `${name.padEnd(6)} start ${start.toFixed(2)} s, ${memory.toFixed(0)} MiB, then at most ${peak.toFixed(0)} MiB, `
      + `create ${inQuantiles(times)}`
  )
  await service.stop()
  return { start, memory, peak, p99: quantile(times, 0.99) }
}

const fill = (status: "interrupted" | "processing", count: number) =>
  sql.unsafe(`
    WITH made AS (
      INSERT INTO tasks (
        uuid, sub, status, revision, run_id, pending_tool_calls, max_execution_time,
        created_at, deadline_at, token_id, token_issued_at, assistant_id
      )
      SELECT
        gen_random_uuid(), 'user-' || n / 5, '${status}', 2, gen_random_uuid(),
        CASE '${status}' WHEN 'interrupted' THEN '[{"id":"call-1","name":"look_up","arguments":{}}]' END,
        86400, now(), now() + interval '1 day', 'token', now(), 1
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
const bytes = ((full.memory - empty.memory) * 1024 * 1024 / (interrupted + processing)).toFixed(0)
console.log(
  `${interrupted} interrupted and ${processing} processing tasks: ${(full.start - empty.start).toFixed(2)} s more, `
    + `${bytes} bytes each, at most ${(full.peak - empty.peak).toFixed(0)} MiB more, create p99 ${
      (full.p99 / empty.p99).toFixed(2)
    } times that of an empty node`
)
await bench.close()
