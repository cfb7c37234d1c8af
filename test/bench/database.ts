/**
 * The cost of nodes and tasks for Postgres: memory of idle connections, NOTIFY with many listeners, rows, bytes, WAL
 * and statements of a task from create to end, and statements of idle nodes. Growth.md uses these figures.
 */
import * as fs from "node:fs"
import postgres from "postgres"
import { pause } from "../kit/pause.ts"
import { eventually, freePort, mint, Service } from "../kit/Service.ts"
import { startPostgres } from "../kit/standalone.ts"
import { numbersOf, repeat } from "./bench.ts"

const { tasks } = numbersOf({ tasks: 4000 })

const database = await startPostgres(["max_connections=500", "shared_preload_libraries=pg_stat_statements"])
const sql = postgres(database.url, { max: 1, onnotice: () => {} })

/** Private memory of a process, in kilobytes. */
const privateMemory = (pid: number) => {
  const rollup = fs.readFileSync(`/proc/${pid}/smaps_rollup`, "utf8")
  return [...rollup.matchAll(/^Private_\w+:\s+(\d+)/gm)].reduce((sum, [, kilobytes]) => sum + Number(kilobytes), 0)
}

const measureConnections = async (count: number) => {
  const pool = postgres(database.url, { max: count, prepare: true })
  const pids = await Promise.all(Array.from({ length: count }, async () => {
    const connection = await pool.reserve()
    const [row] = await connection<Array<{ pid: number }>>`SELECT pg_backend_pid() AS pid, pg_sleep(0.2)`
    return row!.pid
  }))
  const kilobytes = pids.reduce((sum, pid) => sum + privateMemory(pid), 0) / count
  console.log(`${count} idle connections: ${(kilobytes / 1024).toFixed(1)} MB each`)
  await pool.end({ timeout: 0 })
}

/** Notifications per second that reach all listeners, each for one change, sent by two connections. */
const measureNotify = async (listeners: number) => {
  const total = 2000
  let received = 0
  const done = Promise.withResolvers<void>()
  const clients = await Promise.all(Array.from({ length: listeners }, async () => {
    const client = postgres(database.url, { max: 1 })
    await client.listen("bench", () => {
      received++
      if (received === total * listeners) done.resolve()
    })
    return client
  }))
  const senders = [postgres(database.url, { max: 1 }), postgres(database.url, { max: 1 })]
  await Promise.all(senders.map((sender) => sender`SELECT 1`))
  const startedAt = performance.now()
  await Promise.all(senders.map(async (sender) => {
    for (let index = 0; index < total / senders.length; index++) {
      await sender`SELECT pg_notify('bench', '3e6aa3cd-44f7-4bb8-8a5d-3b2c6d0c6d6b')`
    }
  }))
  await done.promise
  const rate = Math.round(total / (performance.now() - startedAt) * 1000)
  console.log(`NOTIFY with ${listeners} listeners: ${rate} per second`)
  await Promise.all([...clients, ...senders].map((client) => client.end({ timeout: 0 })))
}

const measureTasks = async (count: number) => {
  await sql`CREATE EXTENSION pg_stat_statements`
  const service = await Service.start({
    DATABASE_URL: database.url,
    MAX_ACTIVE_TASKS: "100000",
    MODEL_RUNS: "100000",
    LOG_LEVEL: "Error"
  })
  const state = async () => {
    const [row] = await sql<Array<{ lsn: string; bytes: string; calls: string }>>`
      SELECT pg_current_wal_lsn() - '0/0' AS lsn,
        (SELECT sum(pg_total_relation_size(c.oid)) FROM pg_class c
          WHERE c.relkind = 'r' AND c.relnamespace = 'public'::regnamespace) AS bytes,
        (SELECT sum(calls) FROM pg_stat_statements WHERE query NOT LIKE '%pg_stat_statements%') AS calls`
    return { wal: Number(row!.lsn), bytes: Number(row!.bytes), calls: Number(row!.calls) }
  }
  const tokens = await Promise.all(Array.from({ length: 100 }, (_, user) => mint(`user-${user}`)))
  const createMany = async (many: number) => {
    const startedAt = performance.now()
    let index = 0
    await repeat(32, (calls) => calls >= many, async () => {
      const { status } = await service.create(tokens[index++ % tokens.length]!, `echo ${"word ".repeat(200)}`)
      if (status !== 201) throw new Error(`create returned ${status}`)
    })
    const live = () => sql`SELECT FROM tasks WHERE completed_at IS NULL LIMIT 1`
    await eventually(live, ({ length }) => length === 0, 600_000)
    return many / ((performance.now() - startedAt) / 1000)
  }
  await createMany(500)
  await sql`CHECKPOINT`
  const before = await state()
  const rate = await createMany(count)
  const after = await state()
  console.log(`${count} tasks with 1 kB of input, run by the built-in assistant: ${rate.toFixed(0)} per second`)
  const perTask = (name: "bytes" | "wal" | "calls", digits = 0) =>
    ((after[name] - before[name]) / count).toFixed(digits)
  console.log(`  per task: ${perTask("bytes")} B in tables and indexes`)
  console.log(`  ${perTask("wal")} B of log, ${perTask("calls", 1)} statements`)
  for (const name of ["tasks", "task_requests", "task_turns", "task_events"]) {
    const [row] = await sql<Array<{ rows: number }>>`SELECT count(*)::int AS rows FROM ${sql(name)}`
    console.log(`  ${name}: ${(row!.rows / (count + 500)).toFixed(2)} rows per task`)
  }
  const [connections] = await sql<Array<{ count: number }>>`
    SELECT count(*)::int FROM pg_stat_activity WHERE application_name = 'async-task-service'`
  console.log(`  connections of the node at the end: ${connections!.count}`)
  await service.stop()
}

/** Transactions per second of idle nodes. */
const measureIdle = async (count: number) => {
  const start = async () =>
    Service.start({ DATABASE_URL: database.url, CLUSTER: "on", CLUSTER_PORT: String(await freePort()) })
  const nodes = await Promise.all(Array.from({ length: count }, start))
  const transactions = async () => {
    const [row] = await sql<Array<{ commits: number }>>`
      SELECT xact_commit::int AS commits FROM pg_stat_database WHERE datname = current_database()`
    return row!.commits
  }
  const before = await transactions()
  await pause(10_000)
  console.log(`${count} idle nodes with CLUSTER=on: ${((await transactions()) - before) / 10} transactions per second`)
  await Promise.all(nodes.map((node) => node.stop()))
}

await measureConnections(100)
for (const listeners of [1, 10, 50, 100]) await measureNotify(listeners)
await measureTasks(tasks)
await measureIdle(3)
await sql.end()
await database.stop()
