/**
 * Lateness of time limits on a healthy node, and on one that is killed and started again. Lateness counts from the
 * limit, or from the restart of the node if that is later.
 */
import { pause } from "../kit/pause.ts"
import { report } from "../kit/ScriptedCore.ts"
import { eventually, freePort, mint, type Service } from "../kit/Service.ts"
import { inQuantiles, numbersOf, startBench } from "./bench.ts"

const { tasks } = numbersOf({ tasks: 1000 })

const { close, core, sql, start } = await startBench()
core.onStart = (run) => {
  void report(run, { type: "processing" }).catch(() => {})
  return 202
}

const createAll = async (service: Service, label: string) => {
  for (let user = 0; user < tasks / 5; user++) {
    const token = await mint(`${label}-${user}`)
    const create = () => service.create(token, "Why?", { max_execution_time: 8 + Math.floor(Math.random() * 10) })
    await Promise.all(Array.from({ length: 5 }, create))
  }
}

const untilEnded = (label: string) =>
  eventually(
    () => sql`SELECT count(*)::int AS live FROM tasks WHERE sub LIKE ${`${label}-%`} AND completed_at IS NULL`,
    ([row]) => row?.["live"] === 0,
    120_000
  )

/** `backAt` is the moment when the node was ready again. */
const print = async (label: string, backAt: Date) => {
  const rows = await sql`SELECT extract(epoch FROM completed_at - greatest(deadline_at, ${backAt}))::float8 AS late,
      error LIKE 'Task exceeded%' AS limited FROM tasks WHERE sub LIKE ${`${label}-%`}`
  const late = rows.map((row) => 1000 * (row["late"] as number))
  const limited = rows.filter((row) => row["limited"]).length
  const worst = `${Math.max(...late).toFixed(0)} ms`
  console.log(
    `${label}: ${limited} of ${rows.length} failed by their limit, late by ${inQuantiles(late)}, most ${worst}`
  )
}

const port = await freePort()
const healthy = await start(port)
await createAll(healthy, "healthy")
await untilEnded("healthy")
await print("healthy", new Date(0))

await createAll(healthy, "killed")
await pause(5000)
await healthy.stop("SIGKILL")
const again = await start(port)
const backAt = new Date()
await untilEnded("killed")
await print("killed", backAt)
await again.stop()
await close()
