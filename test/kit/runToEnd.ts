/** Runs a command of the command line until it ends. */
import { ConfigProvider, Console, Effect } from "effect"
import { execFile } from "node:child_process"
import * as path from "node:path"
import { formatWithOptions } from "node:util"
import * as Program from "../../src/runtime/cli/Program.ts"
import { commandLine } from "./Service.ts"

const root = path.resolve(import.meta.dirname, "../..")

type Environment = Readonly<Record<string, string>>

export interface Ended {
  /** Null when the command was killed after `timeout`. */
  readonly code: number | null
  readonly out: string
  readonly err: string
}

const { NODE_COMPILE_CACHE, PATH } = process.env

/** As a process. Kills it by SIGTERM after `timeout` milliseconds, and by SIGKILL if it ignores that. */
export const runToEnd = (args: ReadonlyArray<string>, env: Environment, timeout = 50_000): Promise<Ended> =>
  new Promise((resolve) => {
    const child = execFile(
      process.execPath,
      [commandLine, ...args],
      { cwd: root, env: { PATH, NODE_COMPILE_CACHE, ...env }, timeout },
      (error, out, err) => {
        clearTimeout(last)
        const code = error === null ? 0 : typeof error.code === "number" ? error.code : null
        resolve({ code, out: out.trim(), err: err.trim() })
      }
    )
    const last = setTimeout(() => child.kill("SIGKILL"), timeout + 5000)
  })

const runInside = async (args: ReadonlyArray<string>, env: Environment): Promise<Ended> => {
  const lines: Record<"out" | "err", Array<string>> = { out: [], err: [] }
  const write = (to: Array<string>) => (...values: ReadonlyArray<unknown>) =>
    void to.push(formatWithOptions({ colors: false }, ...values))
  const captured: Console.Console = { ...globalThis.console, log: write(lines.out), error: write(lines.err) }
  const before = process.env
  process.env = { PATH, NODE_COMPILE_CACHE, ...env }
  const exit = await Effect.runPromiseExit(
    Program.run(args).pipe(
      Effect.provideService(Console.Console, captured),
      Effect.provideService(ConfigProvider.ConfigProvider, ConfigProvider.fromEnv())
    )
  ).finally(() => process.env = before)
  let code: number | null = null
  Program.teardown(exit, (given) => code = given)
  return { code, out: lines.out.join("\n").trim(), err: lines.err.join("\n").trim() }
}

let previous = Promise.resolve<unknown>(undefined)

/**
 * In the process of the test, because starting another one takes half a second of CPU time. Commands run one after the other:
 * they share `process.env`.
 */
export const runHere = (args: ReadonlyArray<string>, env: Environment = {}): Promise<Ended> => {
  const ended = previous.then(() => runInside(args, env))
  previous = ended
  return ended
}

/** Commands with an environment: how each ends, and the JSON of one that has to succeed. */
export const commandsIn = (env: Environment) => {
  const run = (...args: ReadonlyArray<string>) => runHere(args, env)
  const json = async (...args: ReadonlyArray<string>) => {
    const { code, err, out } = await run(...args, "--json")
    if (code !== 0) throw new Error(`${args.join(" ")}: ${code} ${err}`)
    return JSON.parse(out)
  }
  return { run, json }
}

/** The result of one check of `doctor`, as in "FAIL connect ECONNREFUSED". */
export const diagnose = async (env: Environment, check: string) => {
  const { out } = await runHere(["doctor", "--json"], env)
  const findings: ReadonlyArray<
    { readonly check: string; readonly ok: boolean; readonly says: string; readonly warning?: boolean }
  > = JSON.parse(out)
  const found = findings.find((finding) => finding.check === check)
  if (found === undefined) throw new Error(`doctor has no check ${check}: ${out}`)
  return `${!found.ok ? "FAIL" : found.warning === true ? "warn" : "ok"} ${found.says}`
}
