/**
 * Plays phases of the public benchmark of Postgres job queues to this service and to the peers that npm brings, one after another:
 * `npm run bench:harness -- [seconds = 20] [rate = 200] [workers = 32] [system]`. Without its containers and its plots, with its phases:
 * - idle-in-tx: a transaction stays open, so that no version of a row can be removed;
 * - active-readers: four sessions in REPEATABLE READ count the rows of the first table again and again;
 * - high-load: half more than the rate;
 * - backend-kill: sessions that are busy are ended twice a second;
 * - pool-exhaustion: idle sessions take all connections that are left;
 * - postgres-restart: the server ends without a shutdown, and starts again;
 * - kill: the adapter and its service end by SIGKILL, and start again after a quarter of the phase; repeated-kill: again and again.
 *
 * An adapter that ended by itself is started again for the next phase, and the line says so. Rates and percentiles are medians of a phase's samples. The last columns are what waited, and what had not ended, at its end: after the
 * last phase that is lost, or waits for the end of a lock of its worker.
 */
import { type ChildProcess, spawn } from "node:child_process"
import { once } from "node:events"
import * as fs from "node:fs"
import * as path from "node:path"
import { createInterface } from "node:readline"
import { setTimeout as pause } from "node:timers/promises"
import sqlOf from "postgres"
import { startPostgres } from "../../kit/standalone.ts"
import { median } from "../../kit/statistics.ts"

const [seconds = 20, rate = 200, workers = 32] = process.argv.slice(2, 5).map(Number)
const only = process.argv[5]
if (![seconds, rate, workers].every((number) => number > 0)) {
  console.log("node test/bench/harness/main.ts [seconds = 20] [rate = 200] [workers = 32] [system]")
  process.exit(process.argv[2] === "--help" ? 0 : 2)
}

const systems = [
  { name: "async-task-service", script: "service.ts", environment: {} },
  { name: "graphile-worker", script: "peers.ts", environment: { PEER: "graphile-worker" } },
  { name: "pg-boss", script: "peers.ts", environment: { PEER: "pg-boss" } }
].filter(({ name }) => only === undefined || name === only)

interface Sample {
  readonly kind: string
  readonly metric: string
  readonly value: number
  readonly event_tables?: ReadonlyArray<string>
}

const postgres = await startPostgres(["max_connections=200", "shared_preload_libraries=pg_stat_statements"])
const rateFile = path.join(postgres.directory, "producer-rate")
let adapter: ChildProcess | undefined
let samples: Array<Sample> = []
/** A service is a child of its adapter: both are one process group. */
const signal = (name: NodeJS.Signals) => {
  if (adapter?.pid !== undefined && adapter.exitCode === null) process.kill(-adapter.pid, name)
}
process.once("exit", () => signal("SIGKILL"))

for (const { environment, name, script } of systems) {
  const url = await postgres.makeDatabase(name.replaceAll("-", "_"))
  const sql = sqlOf(url, { max: 8, onnotice: () => {} })
  let tables: ReadonlyArray<string> = []
  fs.writeFileSync(rateFile, String(rate))

  const start = async () => {
    adapter = spawn(process.execPath, [path.join(import.meta.dirname, script)], {
      detached: true,
      stdio: ["ignore", "pipe", process.env["VERBOSE"] === undefined ? "ignore" : "inherit"],
      env: {
        ...process.env,
        ...environment,
        DATABASE_URL: url,
        WORKER_COUNT: String(workers),
        SAMPLE_EVERY_S: "2",
        PRODUCER_RATE_CONTROL_FILE: rateFile
      }
    })
    const lines = createInterface(adapter.stdout!)
    const described = new Promise<void>((resolve) =>
      lines.on("line", (line) => {
        const sample = JSON.parse(line) as Sample
        if (sample.kind === "descriptor") resolve(void (tables = sample.event_tables ?? []))
        else samples.push(sample)
      })
    )
    await Promise.race([
      described,
      once(adapter, "exit").then(() => Promise.reject(new Error(`${name} did not start`)))
    ])
  }

  /** Ends the adapter and its service, and starts them again after a quarter of the phase. */
  const kill = async () => {
    const killed = adapter!
    const ended = once(killed, "exit")
    signal("SIGKILL")
    if (killed.exitCode === null && killed.signalCode === null) await ended
    await pause(seconds * 250)
    await start()
  }

  /** Runs while the phase lasts. */
  const phases: Readonly<Record<string, (over: AbortSignal) => Promise<unknown>>> = {
    "warm-up": async () => {},
    "clean": async () => {},
    "idle-in-tx": async (over) => {
      const session = await sql.reserve()
      await session`BEGIN`
      await session`SELECT txid_current()`
      await once(over, "abort")
      await session`ROLLBACK`
      session.release()
    },
    "active-readers": (over) =>
      Promise.all(Array.from({ length: 4 }, async () => {
        const session = await sql.reserve()
        await session`BEGIN ISOLATION LEVEL REPEATABLE READ`
        while (!over.aborted) {
          await session.unsafe(`SELECT count(*) FROM ${tables[0]}`)
          await pause(100)
        }
        await session`ROLLBACK`
        session.release()
      })),
    "high-load": async (over) => {
      fs.writeFileSync(rateFile, String(rate * 1.5))
      await once(over, "abort")
      fs.writeFileSync(rateFile, String(rate))
    },
    "backend-kill": async (over) => {
      while (!over.aborted) {
        await sql`
          SELECT pg_terminate_backend(pid) FROM pg_stat_activity
          WHERE datname = current_database() AND pid <> pg_backend_pid() AND state IN ('active', 'idle in transaction')`
        await pause(500)
      }
    },
    "pool-exhaustion": async (over) => {
      const others = sqlOf(url, { max: 300, onnotice: () => {} })
      const refused = Array.from({ length: 300 }, () => others.reserve().catch(() => {}))
      await once(over, "abort")
      await others.end({ timeout: 0 })
      await Promise.all(refused)
    },
    "postgres-restart": () => postgres.restartImmediately(),
    "kill": kill,
    "repeated-kill": async (over) => {
      while (!over.aborted) {
        await kill()
        await pause(seconds * 250)
      }
    },
    "recovery": async () => {},
    "no new jobs": async () => fs.writeFileSync(rateFile, "0")
  }

  await start()
  console.log(
    `${name}\n${"phase".padEnd(16)}${"enqueued/s".padStart(12)}${"completed/s".padStart(13)}${"claim p50".padStart(11)}`
      + `${"claim p99".padStart(11)}${"dead rows".padStart(11)}${"waiting".padStart(9)}${"open".padStart(9)}`
  )
  for (const [phase, hold] of Object.entries(phases)) {
    samples = []
    const over = new AbortController()
    const held = hold(over.signal)
    await pause(seconds * 1000)
    over.abort()
    await held.catch((error) => console.error(`${phase}: ${error}`))
    if (phase === "warm-up") continue
    const hasEnded = adapter?.exitCode !== null || adapter.signalCode !== null
    if (hasEnded) await start()
    const of = (metric: string) => samples.filter((sample) => sample.metric === metric).map(({ value }) => value)
    const [dead] = await sql`SELECT sum(n_dead_tup) AS count FROM pg_stat_user_tables`
    console.log(
      phase.padEnd(16) + median(of("enqueue_rate")).toFixed(0).padStart(12)
        + median(of("completion_rate")).toFixed(0).padStart(13) + median(of("claim_p50_ms")).toFixed(1).padStart(11)
        + median(of("claim_p99_ms")).toFixed(1).padStart(11) + String(dead?.["count"] ?? 0).padStart(11)
        + String(of("queue_depth").at(-1) ?? "").padStart(9) + String(of("total_backlog").at(-1) ?? "").padStart(9)
        + (hasEnded ? "  had ended by itself" : "")
    )
  }
  const ended = once(adapter!, "exit")
  signal("SIGTERM")
  await ended
  await sql.end()
}
await postgres.stop()
process.exit()
