/**
 * Ends the process when its event loop is blocked for too long: it would not recover by itself, and the process supervisor
 * restarts it. A separate thread checks, because nothing runs on a blocked one.
 */
import { Config, Duration, Effect, Layer } from "effect"
import * as path from "node:path"
import { Worker } from "node:worker_threads"
import * as TimedWorker from "../../services/timing/Worker.ts"
import type { Watch } from "./watchdogThread.ts"

export const settings = [
  {
    names: ["WATCHDOG_TIMEOUT"],
    default: "`30 seconds`",
    meaning:
      "how long the event loop may be blocked before the process ends itself with SIGALRM (exit code 142); `off`: no limit"
  }
]

/** Undefined means off. */
export const timeout = (name: string): Config.Config<Duration.Duration | undefined> =>
  Config.orElse(Config.Duration(name), () => Config.map(Config.Literals(["off"], name), () => undefined))

export const defaultTimeout = Duration.seconds(30)

/** Ticks of the thread within one timeout. */
const ticks = 30

/** The thread's module: TypeScript in the sources, JavaScript in the build. */
const thread = new URL(`./watchdogThread${path.extname(import.meta.url)}`, import.meta.url)

/** A log line in the format of the logger. */
const lineOf = (message: string, isJson: boolean) =>
  isJson ? JSON.stringify({ level: "FATAL", message }) : `FATAL: ${message}`

const start = (timeout: Duration.Duration, isJson: boolean) => {
  const turns = new Int32Array(new SharedArrayBuffer(4))
  const tick = Math.max(1, Duration.toMillis(timeout) / ticks)
  const blocked = `the event loop has been blocked for ${Duration.format(timeout)} (WATCHDOG_TIMEOUT)`
  const watch: Watch = {
    turns,
    tick,
    maxTicks: ticks,
    exitMessage: lineOf(`${blocked}: the process ends, to be started again`, isJson),
    ignoredMessage: lineOf(
      `${blocked}, and process ${process.pid} ignores SIGALRM: run its container with an init`,
      isJson
    )
  }
  const worker = new Worker(thread, { workerData: watch, env: {} })
  // The service continues without a watchdog.
  worker.on("error", (error) => process.emitWarning(`the watchdog failed: ${String(error)}`))
  worker.unref()
  return { tick, turns, worker }
}

const watch = Effect.fnUntraced(function*(timeout: Duration.Duration, isJson: boolean) {
  const { tick, turns } = yield* Effect.acquireRelease(
    Effect.sync(() => start(timeout, isJson)),
    ({ worker }) => Effect.promise(() => worker.terminate())
  )
  const turn = Effect.sync(() => Atomics.add(turns, 0, 1))
  yield* TimedWorker.make({ name: "the watchdog's signal", runOnce: turn, interval: tick })
})

export const layer = (timeout: Duration.Duration | undefined, isJson: boolean) =>
  timeout === undefined ? Layer.empty : Layer.effectDiscard(watch(timeout, isJson))
