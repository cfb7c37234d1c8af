/**
 * `npm run chaos`: every fault in turn against a node under load, with real processes, sockets and Postgres.
 *
 *   npm run chaos -- --fault kill --rounds 100
 */
import { parseArgs } from "node:util"
import { type Fault, faults, type Report, run } from "./chaos.ts"

const { values } = parseArgs({
  options: {
    fault: { type: "string", multiple: true },
    rounds: { type: "string", default: "10" },
    help: { type: "boolean", default: false }
  }
})
const usage = `usage: npm run chaos -- [--fault ${faults.join("|")}]… [--rounds N]`
if (values.help) {
  console.log(usage)
  process.exit()
}
const rounds = Number(values.rounds)
const chosen = (values.fault ?? faults) as ReadonlyArray<Fault>
if (!Number.isSafeInteger(rounds) || rounds < 1 || chosen.some((fault) => !faults.includes(fault))) {
  console.error(usage)
  process.exit(2)
}

const isGood = ({ lost, overLimit, stuck, twiceTerminal }: Report) => lost + overLimit + stuck + twiceTerminal === 0

for (const fault of chosen) {
  const report = await run(fault, rounds, (round, seconds) => {
    if (round % 10 === 0) console.log(`${fault}: round ${round}, answering again after ${seconds.toFixed(2)} s`)
  })
  console.log(JSON.stringify({ ...report, worstRecovery: Number(report.worstRecovery.toFixed(2)) }))
  if (!isGood(report)) process.exitCode = 1
}
process.exit()
