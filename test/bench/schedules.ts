/**
 * Refused expressions and previews in this process; schedules on two nodes: many that are due in one second, one node killed meanwhile if the second argument is 1; the lateness of single
 * ones; and what 100,000 waiting ones cost.
 */
import { fromMicros } from "../../src/domain/Timestamp.ts"
import { defaults, limits, problemOfCron, upcoming } from "../../src/services/schedules/Schedule.ts"
import { settled } from "../kit/ClusterSystem.ts"
import { pause } from "../kit/pause.ts"
import { eventually, freePort, mint, Service } from "../kit/Service.ts"
import { quantile } from "../kit/statistics.ts"
import { TokenIssuer } from "../kit/TokenIssuer.ts"
import { numbersOf, startBench } from "./bench.ts"
import { cpuOfProcess, residentMemory } from "./processes.ts"

const { due, isKilled, single, waiting } = numbersOf({ due: 10_000, isKilled: 0, single: 1000, waiting: 100_000 })

/**
 * Milliseconds of calls with different inputs, after a call that loads what the process needs. The slowest is one that the collector of
 * garbage or the compiler interrupted.
 */
const timesOf = <A>(inputs: ReadonlyArray<A>, call: (input: A) => unknown) => {
  const times = inputs.map((input) => {
    const started = performance.now()
    call(input)
    return performance.now() - started
  }).slice(1)
  return [0.5, 0.99, 1].map((share) => Number(quantile(times, share).toFixed(3)))
}

const refused = ["0 0 30 2 *", "0 0 31 4,6 *", "0 0 9 * * *", "@daily", "0 0 L * *", "5-1 * * * *", "1,".repeat(10_000)]
const zones = Intl.supportedValuesOf("timeZone").slice(0, 100)
const rare = ["0 0 29 2 *", "59 23 31 12 7", "*/30 0-23 * * *", "30 2 13 2 FRI"]
console.log(
  "expressions",
  JSON.stringify({
    refused_p50_p99_max_ms: timesOf(Array.from({ length: 50 }, () => refused).flat(), problemOfCron),
    preview_p50_p99_max_ms: timesOf(
      zones.flatMap((timezone) => rare.map((cron) => ({ ...defaults, cron, timezone }))),
      (definition) => upcoming(definition, fromMicros(Date.now() * 1000), limits.preview)
    )
  })
)

const issuer = await new TokenIssuer().listen()
const bench = await startBench({ TOKEN_URL: issuer.url, MAX_ACTIVE_TASKS: "5", CLUSTER: "on" })
bench.core.largest = 0
const { sql } = bench
const startNode = async () => Service.start({ ...bench.settings, CLUSTER_PORT: String(await freePort()) })
const nodes = [await startNode(), await startNode()] as const
const [first, second] = nodes
await settled(nodes)

const definition = JSON.stringify({ ...defaults, cron: "0 9 * * *" })
const task = JSON.stringify({ assistant_id: 1, input: [{ type: "text", text: "Good morning" }] })

/** Inserts schedules of as many users, whose moments are spread over some milliseconds from a moment on. */
const insert = (name: string, count: number, from: number, spread: number) =>
  sql.unsafe(
    `INSERT INTO schedules (id, sub, definition, task, state, next_at, due_at, revision, version, token_id, authorized_at,
      task_failures, token_failures, created_at)
    SELECT gen_random_uuid(), '${name}-' || n, $1, $2, 'active', moment, moment, 0, 0, 'jti:none', now(), 0, 0, now()
    FROM (
      SELECT n, to_timestamp(${from / 1000}) + n * interval '1 ms' * ${
      spread / count
    } AS moment FROM generate_series(1, ${count}) n
    ) AS moments`,
    [definition, task]
  )

const outcomes = async (name: string) => {
  const rows = await sql.unsafe(
    `SELECT outcome, count(*)::int AS count, count(DISTINCT task_uuid)::int AS tasks,
      max(extract(epoch FROM started_at - scheduled_for))::float8 AS latest
    FROM schedule_runs JOIN schedules ON id = schedule_id WHERE sub LIKE '${name}-%' GROUP BY outcome`
  )
  return [...rows]
}

/** The query of the outcomes takes 25 ms of the database's time. */
const completed = (name: string, count: number) =>
  eventually(
    () => pause(1000).then(() => outcomes(name)),
    (rows) => rows.find(({ outcome }) => outcome === "created")?.count === count,
    120_000
  )

/** Calls of others meanwhile: their latencies in milliseconds. */
const others = (service: typeof second) => {
  const health: Array<number> = []
  const creates: Array<number> = []
  const over = new AbortController()
  const timed = async (times: Array<number>, call: () => Promise<unknown>) => {
    const started = performance.now()
    await call()
    times.push(performance.now() - started)
  }
  const loop = async () => {
    for (let index = 0; !over.signal.aborted; index++) {
      const token = await mint(`other-${index}`)
      await Promise.all([
        timed(health, () => fetch(`${service.url}/healthz`)),
        timed(creates, () => service.create(token, "x"))
      ])
      await new Promise((resolve) => setTimeout(resolve, 20))
    }
  }
  const running = loop()
  return async () => {
    over.abort()
    await running
    return {
      healthz_max_ms: Math.round(Math.max(...health)),
      creates_p99_ms: Math.round(quantile(creates, 0.99)),
      creates: creates.length
    }
  }
}

const at = Date.now() + 8000
await insert("burst", due, at, 1000)
const end = others(second)
if (isKilled === 1) {
  await new Promise((resolve) => setTimeout(resolve, at + 1500 - Date.now()))
  await first.stop("SIGKILL")
}
const burst = await completed("burst", due)
const total = await sql.unsafe(`SELECT count(*)::int AS count FROM tasks WHERE sub LIKE 'burst-%'`)
console.log("burst", JSON.stringify({ due, isKilled, outcomes: burst, tasks: total[0]?.["count"], ...await end() }))

if (single > 0) {
  await insert("single", single, Date.now() + 3000, 30_000)
  await completed("single", single)
  const rows = await sql.unsafe(
    `SELECT extract(epoch FROM started_at - scheduled_for)::float8 * 1000 AS late FROM schedule_runs JOIN schedules ON id = schedule_id
    WHERE sub LIKE 'single-%'`
  )
  const late = rows.map((row) => Number(row["late"]))
  console.log(
    "single",
    JSON.stringify({ p50_ms: quantile(late, 0.5), p99_ms: quantile(late, 0.99), max_ms: Math.max(...late) })
  )
}

if (waiting > 0) {
  const pid = second.process.pid ?? 0
  const idle = async () => {
    const before = cpuOfProcess(pid)
    await new Promise((resolve) => setTimeout(resolve, 10_000))
    return { cpu_ms_per_s: (cpuOfProcess(pid) - before) / 10, rss_mib: Math.round(residentMemory(pid)) }
  }
  const without = await idle()
  await insert("waiting", waiting, Date.now() + 86_400_000, 86_400_000)
  console.log("waiting", JSON.stringify({ without, with: await idle() }))
}
await Promise.all(nodes.map((node) => node.stop("SIGKILL")))
issuer.close()
await bench.close()
