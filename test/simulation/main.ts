/** `npm run simulate`: runs seeds until one violates an invariant, or replays one seed with its timeline. */
import { parseArgs } from "node:util"
import { mutations } from "./Mutations.ts"
import { type Outcome, simulate } from "./simulate.ts"

const usage = `npm run simulate -- --seeds 10000            seeds 1 to 10000
npm run simulate -- --from 5000 --seeds 100  seeds 5000 to 5099
npm run simulate -- --seed 241               one seed, with its timeline
npm run simulate -- --mutations              how many seeds it takes to find each planted bug`

const { values } = parseArgs({
  options: {
    seeds: { type: "string", default: "10000" },
    from: { type: "string", default: "1" },
    seed: { type: "string" },
    mutations: { type: "boolean", default: false },
    help: { type: "boolean", default: false }
  }
})

const numberOf = (name: "seeds" | "from" | "seed") => {
  const value = Number(values[name])
  if (Number.isSafeInteger(value) && value > 0) return value
  console.error(`--${name}: a whole number of at least 1 is expected, not ${values[name]}`)
  return process.exit(2)
}

const print = ({ kills, seed, tasks, timeline, violation }: Outcome) => {
  console.log(timeline())
  console.log(`\nseed ${seed}: ${tasks} tasks, ${kills} kills, ${violation?.message ?? "no violation"}`)
  if (violation !== undefined) process.exitCode = 1
}

const seconds = (since: number) => ((performance.now() - since) / 1000).toFixed(1)

const runMany = async (from: number, seeds: number) => {
  const startedAt = performance.now()
  const sums = { tasks: 0, kills: 0 }
  for (let count = 1; count <= seeds; count++) {
    const outcome = await simulate(from + count - 1)
    sums.tasks += outcome.tasks
    sums.kills += outcome.kills
    if (outcome.violation !== undefined) {
      print(outcome)
      return console.log(`Again: npm run simulate -- --seed ${outcome.seed}`)
    }
    if (count % 500 === 0 || count === seeds) {
      console.log(
        `${count} seeds, ${sums.tasks} tasks, ${sums.kills} kills: no violation, ${seconds(startedAt)} s`
      )
    }
  }
}

const findMutations = async (seeds: number) => {
  for (const [name, mutation] of Object.entries(mutations)) {
    let found: Outcome | undefined
    for (let seed = 1; seed <= seeds && found === undefined; seed++) {
      const outcome = await simulate(seed, mutation)
      if (outcome.violation !== undefined) found = outcome
    }
    console.log(`${name}: ${found === undefined ? "NOT FOUND" : `seed ${found.seed}, ${found.violation?.message}`}`)
    if (found === undefined) process.exitCode = 1
  }
}

if (values.help) console.log(usage)
else if (values.mutations) await findMutations(Math.min(numberOf("seeds"), 500))
else if (values.seed !== undefined) print(await simulate(numberOf("seed")))
else await runMany(numberOf("from"), numberOf("seeds"))
