/**
 * `npm run chaos` applies every fault to tasks in every state, on nodes that are real processes behind a load balancer.
 *
 *   npm run chaos -- --write                                       the whole matrix, into test/README.md
 *   npm run chaos -- --fault kill --state mixed --rounds 100       a soak
 */
import { execFileSync } from "node:child_process"
import * as fs from "node:fs"
import { fileURLToPath } from "node:url"
import { parseArgs } from "node:util"
import { partOf } from "../docs/markdown.ts"
import { dateSeed } from "../kit/thorough.ts"
import { boundOf } from "./bounds.ts"
import { isKept, type Outcome, runCell } from "./cell.ts"
import { seedChance } from "./chance.ts"
import { type Fault, faults } from "./Faults.ts"
import { stages } from "./Plan.ts"
import { settingsOf, type State, states } from "./States.ts"
import { tableOf } from "./table.ts"
import { makeWorld } from "./World.ts"

const usage = `usage: npm run chaos -- [--fault F]… [--state S]… [--rounds N] [--nodes N] [--seed N] [--write]

  --fault   ${faults.join(", ")}; all by default
  --state   ${states.join(", ")}; all but mixed by default
  --rounds  of each cell; 1 by default
  --nodes   processes of the service; 2 by default
  --seed    of the plans of tasks, core and target; that of the date by default
  --write   writes the table into test/README.md; takes the whole matrix

A line of JSON for each cell goes to stdout, progress and what was broken to stderr. Fails when a\npromise was broken, or tasks went on too late.`

const wrong = (message: string): never => {
  console.error(`${message}\n\n${usage}`)
  process.exit(2)
}

const count = (name: string, text: string, maximum: number) => {
  const value = Number(text)
  if (!Number.isSafeInteger(value) || value < 1 || value > maximum) wrong(`--${name} must be from 1 to ${maximum}`)
  return value
}

const chosen = <A extends string>(name: string, all: ReadonlyArray<A>, given: ReadonlyArray<string>) => {
  const unknown = given.find((value) => !all.includes(value as A))
  if (unknown !== undefined) wrong(`--${name} ${unknown}: must be one of ${all.join(", ")}`)
  return given as ReadonlyArray<A>
}

const readArguments = () => {
  try {
    return parseArgs({
      options: {
        fault: { type: "string", multiple: true },
        state: { type: "string", multiple: true },
        rounds: { type: "string", default: "1" },
        nodes: { type: "string", default: "2" },
        seed: { type: "string", default: dateSeed() },
        write: { type: "boolean", default: false },
        help: { type: "boolean", default: false }
      }
    }).values
  } catch (error) {
    return wrong((error as Error).message)
  }
}

const values = readArguments()
if (values.help) {
  console.log(usage)
  process.exit()
}
const rounds = count("rounds", values.rounds, 100_000)
const size = count("nodes", values.nodes, 16)
const seed = count("seed", values.seed, Number.MAX_SAFE_INTEGER)
seedChance(seed)
console.error(`seed ${seed}`)
const chosenFaults: ReadonlyArray<Fault> = chosen("fault", faults, values.fault ?? faults)
const chosenStates: ReadonlyArray<State> = chosen("state", states, values.state ?? [...stages, "queued"])
if (values.write && (values.fault ?? values.state) !== undefined) wrong("--write takes the whole matrix")

for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => process.exit(1))

const outcomes: Array<Outcome> = []
const isInTime = (outcome: Outcome) => {
  const calm = outcomes.find(({ fault, state }) => fault === "none" && state === outcome.state)
  return outcome.fault === "none" || outcome.worstRecovery <= boundOf(outcome, calm?.worstRecovery ?? 0)
}
const verdictOf = (outcome: Outcome) => isKept(outcome) ? isInTime(outcome) ? "kept" : "LATE" : "BROKEN"

for (const fault of chosenFaults) {
  const world = await makeWorld(size)
  for (const state of chosenStates) {
    const settings = settingsOf(state)
    const own = settings && await makeWorld(size, settings)
    const outcome = await runCell(own ?? world, fault, state, rounds, (round, seconds) => {
      if (round % 10 === 0) console.error(`${fault}, ${state}: round ${round}, recovered in ${seconds.toFixed(2)} s`)
    })
    await own?.close()
    outcomes.push(outcome)
    const { details, worstLateness, worstRecovery, ...rest } = outcome
    const verdict = verdictOf(outcome)
    console.error(`${fault}, ${state}: ${verdict}, recovered in ${worstRecovery.toFixed(2)} s`)
    for (const detail of details) console.error(`  ${detail}`)
    console.log(JSON.stringify({
      ...rest,
      worstRecovery: Number(worstRecovery.toFixed(2)),
      worstLateness: Number(worstLateness.toFixed(2))
    }))
    if (verdict !== "kept") process.exitCode = 1
  }
  await world.close()
}
if (values.write) {
  const readme = fileURLToPath(new URL("../README.md", import.meta.url))
  const write = (_: string, start: string, __: string, end: string) => `${start}\n${tableOf(outcomes)}\n${end}`
  fs.writeFileSync(readme, fs.readFileSync(readme, "utf8").replace(partOf("chaos"), write))
  execFileSync("dprint", ["fmt", readme])
}
process.exit()
