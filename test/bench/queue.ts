/**
 * The queue: what a limit costs that is never reached, how full the places are while thousands wait, and a large backlog. The core answers
 * in this process, so the figures are those of service, database and core on one machine.
 */
import { positions } from "../../src/services/store/queue/RunQueueSql.ts"
import { BusyCore } from "../kit/BusyCore.ts"
import { eventually, mint } from "../kit/Service.ts"
import { quantile } from "../kit/statistics.ts"
import { numbersOf, startBench } from "./bench.ts"

const { backlog, rounds, tasks, waiting } = numbersOf({ tasks: 2000, waiting: 2000, backlog: 100_000, rounds: 2 })
const bench = await startBench()
const { sql } = bench
const user = await mint("bench")

/** Tasks a second from the first create to the last end, with `clients` creators at a time. */
const measure = async (settings: Readonly<Record<string, string>>, count: number, takes: number, clients: number) => {
  const core = await new BusyCore(Infinity, takes).listen() as BusyCore
  Object.assign(bench.settings, { CORE_URL: core.url, CORE_RUNS: "", ...settings })
  const service = await bench.start()
  let left = count
  const begun = performance.now()
  const create = async (): Promise<void> => {
    while (left-- > 0) await service.create(user, "x")
  }
  await Promise.all(Array.from({ length: clients }, create))
  const created = performance.now()
  const ends = async () => Number((await sql`SELECT count(*) FROM tasks WHERE completed_at IS NULL`)[0]!["count"])
  await eventually(ends, (live) => live === 0, 120_000, 100)
  const seconds = (performance.now() - begun) / 1000
  await service.stop()
  await core.close()
  await sql`TRUNCATE tasks, task_requests, task_events, task_turns, waiting_runs CASCADE`
  return { rate: count / seconds, creates: count / (created - begun) * 1000, most: core.most }
}

for (let round = 1; round <= rounds; round++) {
  const free = await measure({}, tasks, 0, 32)
  const limited = await measure({ CORE_RUNS: "256" }, tasks, 0, 32)
  console.log(
    `${Math.round(free.rate)} tasks/s without a limit, ${Math.round(limited.rate)} with CORE_RUNS=256: ${
      (limited.rate / free.rate).toFixed(2)
    }`
  )
}
const full = await measure({ CORE_RUNS: "64" }, waiting, 20, 256)
console.log(
  `${Math.round(full.rate)} tasks/s in 64 places with runs of 20 ms, ${full.most} at most: ${
    (full.rate / 3200).toFixed(2)
  } of 3,200`
)

const core = await new BusyCore(0, 0).listen() as BusyCore
const startTime = async (settings: Readonly<Record<string, string>>) => {
  Object.assign(bench.settings, { CORE_URL: core.url, ...settings })
  const begun = performance.now()
  const service = await bench.start()
  return { service, seconds: (performance.now() - begun) / 1000 }
}
const rss = async (pid: number) => {
  const { readFileSync } = await import("node:fs")
  return Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1]) * 1024
}
const empty = await startTime({ CORE_RUNS: "1" })
const before = await rss(empty.service.process.pid!)
await empty.service.stop()
await sql`WITH made AS (
    INSERT INTO tasks (uuid, sub, run_id, max_execution_time, created_at, deadline_at, token_id, assistant_id, room)
    SELECT gen_random_uuid(), 'user ' || n % 20000, gen_random_uuid(), 86400, now() + n * interval '1 microsecond', now() + interval '1 day',
      'token', n % 10, CASE n WHEN 0 THEN 'held' ELSE 'waiting' END FROM generate_series(0, ${backlog}::int) AS n RETURNING *
  ), requests AS (
    INSERT INTO task_requests (task_uuid, request, user_token) SELECT uuid, '{}', '' FROM made
  )
  INSERT INTO waiting_runs (task_uuid, assistant_id, sub, class, ticket, since)
  SELECT uuid, assistant_id, sub, 5, row_number() OVER (PARTITION BY sub ORDER BY created_at), created_at FROM made WHERE room = 'waiting'`
const backlogged = await startTime({ CORE_RUNS: "1" })
const after = await rss(backlogged.service.process.pid!)
console.log(
  `${backlog} waiting: start in ${backlogged.seconds.toFixed(1)} s, ${empty.seconds.toFixed(1)} s without; ${
    Math.round((after - before) / backlog)
  } bytes of memory each`
)
await backlogged.service.stop()
const times = async (statement: () => Promise<unknown>) => {
  const found: Array<number> = []
  for (let count = 0; count < 200; count++) {
    const begun = performance.now()
    await statement()
    found.push(performance.now() - begun)
  }
  return quantile(found, 0.99).toFixed(1)
}
const [middle] = await sql`SELECT task_uuid AS uuid FROM waiting_runs ORDER BY class, ticket, since OFFSET ${
  Math.floor(backlog / 2)
}::int LIMIT 1`
const zeros = `{${Array.from({ length: 11 }, () => 0).join()}}`
const epochs = `{${Array.from({ length: 11 }, () => "epoch").join()}}`
const admitting = await times(() =>
  sql`SELECT * FROM admit_runs(now(), 1, 1000, NULL, NULL, ${zeros}::bigint[], ${epochs}::timestamptz[])`
)
const position = await times(() => sql.unsafe(positions.text, [[middle!["uuid"]]]))
console.log(`an admission: p99 ${admitting} ms; a position: p99 ${position} ms`)
await core.close()
await bench.close()
