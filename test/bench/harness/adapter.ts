/**
 * The contract of adapters in hardbyte/postgresql-job-queue-benchmarking (its CONTRIBUTING_ADAPTERS.md): settings come from the
 * environment, a descriptor and then samples go to stdout as lines of JSON, logs go to stderr, SIGTERM ends the process within 5 s.
 */
import { once } from "node:events"
import * as fs from "node:fs"
import { setTimeout as pause } from "node:timers/promises"
import { quantile } from "../../kit/statistics.ts"

const numberOf = (name: string, preset: number) => Number(process.env[name] ?? preset)

export const settings = {
  databaseUrl: process.env["DATABASE_URL"] ?? "",
  workers: numberOf("WORKER_COUNT", 32),
  /** Milliseconds that a job works. */
  work: numberOf("JOB_WORK_MS", 1),
  payload: process.env["JOB_PAYLOAD_KIND"] === "random"
    ? crypto.getRandomValues(Buffer.alloc(numberOf("JOB_PAYLOAD_BYTES", 256))).toString("base64")
    : "x".repeat(numberOf("JOB_PAYLOAD_BYTES", 256))
}

const sampleSeconds = numberOf("SAMPLE_EVERY_S", 5)
const instance = numberOf("BENCH_INSTANCE_ID", 0)
/** Percentiles are those of this many seconds, of at most so many values. */
const window = 30
const mostValues = 32_768

/** A rolling window of times, in milliseconds. */
class Times {
  readonly #values: Array<readonly [at: number, took: number]> = []
  add(took: number) {
    if (this.#values.push([performance.now(), took]) > 2 * mostValues) this.#values.splice(0, mostValues)
  }
  recent() {
    const since = performance.now() - window * 1000
    return this.#values.slice(-mostValues).filter(([at]) => at >= since).map(([, took]) => took)
  }
}

export interface System {
  readonly manifest: { readonly system: string; readonly event_tables: ReadonlyArray<string> }
  readonly version: string
  /** Enqueues jobs; each carries the wall clock's milliseconds at which it was made. */
  readonly enqueue: (count: number) => Promise<void>
  /** Jobs that no worker has begun, and all that have not ended. */
  readonly depths: () => Promise<{ readonly queued: number; readonly all: number }>
  readonly stop: () => Promise<void>
}

const claims = new Times()
const ends = new Times()
const produced = new Times()
let enqueued = 0
let completed = 0

/** A job as the worker sees it: it has begun, works, and has ended. */
export const work = async (enqueuedAt: number) => {
  claims.add(Date.now() - enqueuedAt)
  if (settings.work > 0) await pause(settings.work)
}

export const end = (enqueuedAt: number) => {
  ends.add(Date.now() - enqueuedAt)
  completed++
}

const print = (record: object) => process.stdout.write(`${JSON.stringify({ ...record, instance_id: instance })}\n`)

/** The harness changes the rate while the adapter runs. */
const rate = () => {
  const file = process.env["PRODUCER_RATE_CONTROL_FILE"]
  const preset = numberOf("PRODUCER_RATE", 800)
  if (file === undefined || !fs.existsSync(file)) return preset
  const written = Number.parseFloat(fs.readFileSync(file, "utf8"))
  return Number.isFinite(written) ? written : preset
}

/** Runs until SIGTERM or SIGINT. */
export const run = async (start: () => Promise<System>) => {
  const over = new AbortController()
  for (const signal of ["SIGTERM", "SIGINT"]) process.once(signal, () => over.abort())
  const system = await start()
  print({ kind: "descriptor", ...system.manifest, version: system.version, started_at: new Date().toISOString() })

  const mode = process.env["PRODUCER_MODE"] ?? "fixed"
  const most = numberOf("PRODUCER_BATCH_MAX", 128)
  let depths = { queued: 0, all: 0 }
  const observing = (async () => {
    while (!over.signal.aborted) {
      depths = await system.depths().catch(() => depths)
      await pause(250)
    }
  })()

  const producing = (async () => {
    let due = performance.now()
    while (!over.signal.aborted) {
      const perSecond = rate()
      const owed = mode === "depth-target"
        ? numberOf("TARGET_DEPTH", 1000) - depths.queued
        : Math.floor((performance.now() - due) * perSecond / 1000)
      const count = Math.min(most, owed)
      if (count < 1) {
        await pause(5)
        continue
      }
      const startedAt = performance.now()
      try {
        await system.enqueue(count)
        enqueued += count
        produced.add((performance.now() - startedAt) / count)
        due += count * 1000 / perSecond
      } catch (error) {
        // The database is away, or this system refuses for the moment: the harness counts what was taken.
        console.error(String(error))
        await pause(200)
      }
      // What could not be produced in time is not made up for in a burst.
      due = Math.max(due, performance.now() - 1000)
    }
  })()

  const sampling = (async () => {
    let [lastEnqueued, lastCompleted] = [0, 0]
    while (!over.signal.aborted) {
      const period = sampleSeconds * 1000
      await pause(period - Date.now() % period, undefined, { signal: over.signal }).catch(() => {})
      const values: Array<readonly [metric: string, value: number, seconds: number]> = []
      for (
        const [name, times] of [
          ["producer", produced.recent()],
          ["claim", claims.recent()],
          ["subscriber", claims.recent()],
          ["end_to_end", ends.recent()]
        ] as const
      ) {
        for (const percent of [50, 95, 99]) {
          values.push([`${name}_p${percent}_ms`, quantile(times, percent / 100), window])
        }
      }
      values.push(["enqueue_rate", (enqueued - lastEnqueued) / sampleSeconds, sampleSeconds])
      values.push(["completion_rate", (completed - lastCompleted) / sampleSeconds, sampleSeconds])
      // One replica reports what holds for all.
      if (instance === 0) {
        values.push(["queue_depth", depths.queued, 0], ["total_backlog", depths.all, 0], [
          "producer_target_rate",
          rate(),
          0
        ])
      }
      for (const [metric, value, seconds] of values) {
        print({
          t: new Date().toISOString(),
          system: system.manifest.system,
          kind: "adapter",
          subject_kind: "adapter",
          subject: "",
          metric,
          value,
          window_s: seconds
        })
      }
      ;[lastEnqueued, lastCompleted] = [enqueued, completed]
    }
  })()

  if (!over.signal.aborted) await once(over.signal, "abort")
  // 5 s are allowed: work on hand is left to be found again.
  setTimeout(() => process.exit(0), 4000).unref()
  await Promise.all([producing, observing, sampling])
  await system.stop()
  process.exit(0)
}
