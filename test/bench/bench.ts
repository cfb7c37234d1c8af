/** The parts that the benchmarks share: numbers of the command line, a system, scripts, and alternating rounds. */
import { spawn } from "node:child_process"
import * as path from "node:path"
import postgres from "postgres"
import { ScriptedCore } from "../kit/ScriptedCore.ts"
import { eventually, freePort, Service } from "../kit/Service.ts"
import { startPostgres } from "../kit/standalone.ts"
import { median, quantile } from "../kit/statistics.ts"

/** Numbers of the command line, in the order of `defaults`. `--help` prints their names. */
export const numbersOf = <Defaults extends Readonly<Record<string, number>>>(defaults: Defaults) => {
  const entries = Object.entries(defaults)
  const given = process.argv.slice(2)
  const numbers = entries.map(([name, preset], index) => [name, Number(given[index] ?? preset)] as const)
  if (given.length > entries.length || !numbers.every(([, number]) => Number.isFinite(number))) {
    const names = entries.map(([name, preset]) => `[${name} = ${preset}]`)
    console.log(`node test/bench/${path.basename(process.argv[1] ?? "")} ${names.join(" ")}`)
    process.exit(given[0] === "--help" ? 0 : 2)
  }
  return Object.fromEntries(numbers) as { readonly [Name in keyof Defaults]: number }
}

/** A service that accepts any number of tasks, on its own Postgres, with a scripted core that accepts every run. */
export const startBench = async (settings: Readonly<Record<string, string>> = {}) => {
  const database = await startPostgres()
  const core = await new ScriptedCore().listen()
  const sql = postgres(database.url, { max: 1, onnotice: () => {} })
  const all = {
    DATABASE_URL: database.url,
    CORE_URL: core.url,
    MAX_ACTIVE_TASKS: "1000000",
    ACCEPTANCE_TIMEOUT: "1 hour",
    ...settings
  }
  return {
    database,
    core,
    sql,
    settings: all,
    start: (port?: number) => Service.start(all, port),
    close: async () => {
      await sql.end()
      await core.close()
      await database.stop()
      process.exit()
    }
  }
}

/** Starts a script of this folder that listens on `PORT`, and waits until it responds at `address`. */
export const startScript = async (script: string, environment: Readonly<Record<string, string>>, address = "/") => {
  const port = await freePort()
  const child = spawn(process.execPath, [path.join(import.meta.dirname, script)], {
    env: { PATH: process.env["PATH"], NODE_ENV: "production", PORT: String(port), ...environment },
    stdio: "inherit"
  })
  process.once("exit", () => child.kill())
  const url = `http://127.0.0.1:${port}`
  await eventually(() => fetch(url + address).then(() => true, () => false), (isUp) => isUp, 60_000)
  return { url, pid: child.pid!, stop: () => child.kill() }
}

export interface Side {
  readonly name: string
  /** `rate` is compared. */
  readonly measure: () => Promise<{ readonly rate: number; readonly text: string }>
}

/** Measures both sides in alternating rounds after one to warm up. Prints each round and the median ratio of the rates. */
export const compare = async (title: string, rounds: number, one: Side, other: Side) => {
  await one.measure()
  await other.measure()
  const ratios: Array<number> = []
  for (let round = 1; round <= rounds; round++) {
    const [us, them] = [await one.measure(), await other.measure()]
    ratios.push(us.rate / them.rate)
    const ratio = (us.rate / them.rate).toFixed(2)
    console.log(`round ${round}: ${one.name} ${us.text}; ${other.name} ${them.text}; ratio ${ratio}`)
  }
  console.log(`${title}: ${median(ratios).toFixed(2)} of ${other.name} (median of ${rounds} alternating rounds)`)
}

/** Repeats `one` in `concurrency` loops and returns the milliseconds that each call took. */
export const repeat = async (concurrency: number, isOver: (calls: number) => boolean, one: () => Promise<unknown>) => {
  const times: Array<number> = []
  let begun = 0
  await Promise.all(Array.from({ length: concurrency }, async () => {
    while (!isOver(begun++)) {
      const startedAt = performance.now()
      await one()
      times.push(performance.now() - startedAt)
    }
  }))
  return times
}

export const until = (milliseconds: number) => {
  const end = performance.now() + milliseconds
  return () => performance.now() >= end
}

/** Milliseconds. */
export const inQuantiles = (times: ReadonlyArray<number>) =>
  `p50 ${quantile(times, 0.5).toFixed(1)} ms, p99 ${quantile(times, 0.99).toFixed(1)} ms`
