/**
 * `npm run nightly` runs what is too long for every change, one stage after the other, and prints one page of results. A stage that
 * fails does not stop the others; the exit code is 1 if any failed. The seed is of the date (UTC), so that a night is repeated with
 * `-- --seed 20261127`.
 *
 *   npm run nightly                       all stages
 *   npm run nightly -- simulate chaos     some
 *   npm run nightly -- --list             their names, without running any
 */
import { spawn } from "node:child_process"
import * as fs from "node:fs"
import * as path from "node:path"
import { parseArgs } from "node:util"
import { dateSeed } from "../kit/thorough.ts"
import { pageOf, type Result } from "./page.ts"
import { type Stage, stagesOf } from "./stages.ts"

const root = path.resolve(import.meta.dirname, "../..")

const wrong = (message: string): never => {
  console.error(message)
  process.exit(2)
}

const readArguments = () => {
  try {
    return parseArgs({
      allowPositionals: true,
      options: {
        seed: { type: "string", default: dateSeed() },
        list: { type: "boolean", default: false },
        output: { type: "string", default: ".nightly" }
      }
    })
  } catch (error) {
    return wrong((error as Error).message)
  }
}

const { positionals, values } = readArguments()
const seed = Number(values.seed)
if (!Number.isSafeInteger(seed) || seed < 1) wrong(`--seed ${values.seed}: write a whole number of at least 1`)

const all = stagesOf(seed)
const unknown = positionals.filter((name) => !all.some((stage) => stage.name === name))
if (unknown.length > 0) wrong(`${unknown.join(", ")}: the stages are ${all.map(({ name }) => name).join(", ")}`)
const stages = positionals.length === 0 ? all : all.filter(({ name }) => positionals.includes(name))

const directory = path.resolve(root, values.output)

/** The command as one would type it. */
const lineOf = ({ command, env = {} }: Stage) =>
  [...Object.entries(env).map(([name, value]) => `${name}=${value}`), ...command].join(" ")

let current: ReturnType<typeof spawn> | undefined
for (const signal of ["SIGINT", "SIGTERM"] as const) {
  process.once(signal, () => {
    // Services of a stage end with it: each has a process group of its own, which its test run closes.
    if (current?.pid !== undefined) process.kill(-current.pid, signal)
    process.exit(1)
  })
}

/** Runs a stage in a process group of its own, which is killed after the stage's time. Its output goes to a file. */
const run = async (stage: Stage): Promise<Result> => {
  const reason = stage.missing?.()
  if (reason !== undefined) return { name: stage.name, outcome: "skipped", seconds: 0, detail: reason }
  const log = path.join(directory, `${stage.name}.log`)
  const file = fs.openSync(log, "w")
  const startedAt = performance.now()
  const [program = "", ...args] = stage.command
  const child = spawn(program, args, {
    cwd: root,
    detached: true,
    stdio: ["ignore", file, file],
    env: { ...process.env, ...stage.env, PATH: `${root}/node_modules/.bin${path.delimiter}${process.env["PATH"]}` }
  })
  current = child
  let isLate = false
  const timer = setTimeout(() => {
    isLate = true
    if (child.pid !== undefined) process.kill(-child.pid, "SIGKILL")
  }, stage.minutes * 60_000)
  const status = await new Promise<string | undefined>((resolve) => {
    child.once("error", ({ message }) => resolve(message))
    child.once("close", (code, signal) => resolve(code === 0 ? undefined : `exit ${code ?? signal}`))
  })
  clearTimeout(timer)
  fs.closeSync(file)
  current = undefined
  const output = fs.readFileSync(log, "utf8")
  const seconds = (performance.now() - startedAt) / 1000
  const found = stage.summary(output)
  if (status === undefined) return { name: stage.name, outcome: "passed", seconds, detail: found }
  const problem = isLate ? `stopped after ${stage.minutes} minutes` : status
  return {
    name: stage.name,
    outcome: "failed",
    seconds,
    detail: [problem, found].filter((text) => text !== "").join("; "),
    again: lineOf(stage),
    log: path.relative(root, log),
    tail: output
  }
}

if (values.list) {
  for (const stage of stages) {
    const reason = stage.missing?.()
    console.log(`${stage.name.padEnd(12)} ${lineOf(stage)}${reason === undefined ? "" : `  (skipped: ${reason})`}`)
  }
  process.exit()
}

fs.rmSync(directory, { recursive: true, force: true })
fs.mkdirSync(directory, { recursive: true })
console.log(`seed ${seed}`)
const results: Array<Result> = []
for (const stage of stages) {
  const result = await run(stage)
  results.push(result)
  console.log(`${result.outcome.padEnd(8)} ${stage.name} (${Math.round(result.seconds)} s) ${result.detail}`)
}
const page = pageOf(seed, results)
fs.writeFileSync(path.join(directory, "results.md"), page)
console.log(`\n${page}`)
process.exitCode =
  results.some(({ outcome }) => outcome === "failed") || results.every(({ outcome }) => outcome === "skipped") ? 1 : 0
