/**
 * Lateness of time limits on a healthy node, and on one that is killed and started again. Lateness counts from the
 * limit, or from the restart of the node if that is later. Run it with `node test/bench/limits.ts [tasks]`.
 */
import postgres from "postgres"
import { report, ScriptedCore } from "../kit/ScriptedCore.ts"
import { eventually, freePort, mint, Service } from "../kit/Service.ts"
import { startPostgres } from "../kit/standalone.ts"

const tasks = Number(process.argv[2] ?? 1000)

const database = await startPostgres()
const { url } = database
const sql = postgres(url, { max: 1 })
const core = await new ScriptedCore().listen()
core.onStart = (run) => {
  void report(run, { type: "processing" }).catch(() => {})
  return 202
}
const port = await freePort()
const settings = { DATABASE_URL: url, CORE_URL: core.url }

const createAll = async (service: Service, label: string) => {
  for (let user = 0; user < tasks / 5; user++) {
    const token = await mint(`${label}-${user}`)
    await Promise.all(
      Array.from(
        { length: 5 },
        () => service.create(token, "Why?", { max_execution_time: 8 + Math.floor(Math.random() * 10) })
      )
    )
  }
}

const allEnded = (label: string) =>
  eventually(
    () => sql`SELECT count(*)::int AS live FROM tasks WHERE sub LIKE ${`${label}-%`} AND completed_at IS NULL`,
    ([row]) => row?.["live"] === 0,
    120_000
  )

/** In seconds; `backAt` is the moment when the node was ready again. */
const print = async (label: string, backAt: Date) => {
  const rows = await sql`SELECT extract(epoch FROM completed_at - greatest(deadline_at, ${backAt}))::float8 AS late,
      error LIKE 'Task exceeded%' AS limited FROM tasks WHERE sub LIKE ${`${label}-%`} ORDER BY late`
  const late = rows.map((row) => row["late"] as number)
  const limited = rows.filter((row) => row["limited"]).length
  const at = (part: number) => `${(1000 * (late[Math.ceil(late.length * part) - 1] ?? 0)).toFixed(0)} ms`
  console.log(
    `${label}: ${limited} of ${rows.length} failed by their limit, late by p50 ${at(0.5)}, p99 ${at(0.99)}, most ${
      at(1)
    }`
  )
}

const healthy = await Service.start(settings, port)
await createAll(healthy, "healthy")
await allEnded("healthy")
await print("healthy", new Date(0))

await createAll(healthy, "killed")
await new Promise((resolve) => setTimeout(resolve, 5000))
await healthy.stop("SIGKILL")
const again = await Service.start(settings, port)
const backAt = new Date()
await allEnded("killed")
await print("killed", backAt)
await again.stop()

await sql.end()
await core.close()
await database.stop()
process.exit()
