/** Kills nodes with SIGKILL around the sending of webhooks, and counts what the target saw. Argument: rounds. */
import { ScriptedCore } from "../kit/ScriptedCore.ts"
import { startPostgres } from "../kit/standalone.ts"
import { chaosRounds } from "../kit/webhookChaos.ts"
import { WebhookTarget } from "../kit/WebhookTarget.ts"

const rounds = Number(process.argv[2] ?? 100)
const database = await startPostgres()
const core = await new ScriptedCore().listen()
const target = await new WebhookTarget().listen()
const outcomes = await chaosRounds(
  { databaseUrl: await database.makeDatabase("chaos"), core, target, random: Math.random, failing: 0.2 },
  rounds
)
await target.close()
await core.close()
await database.stop()

const tally = new Map<number, number>()
for (const { posts } of outcomes) tally.set(posts.length, (tally.get(posts.length) ?? 0) + 1)
console.log(`${rounds} rounds, ${outcomes.length} deliveries`)
console.log(`POSTs a delivery: ${JSON.stringify(Object.fromEntries([...tally].toSorted(([a], [b]) => a - b)))}`)
console.log(
  `attempts lost to a kill: ${outcomes.flatMap(({ errors }) => errors).filter((error) => error === "lost").length}`
)
console.log(`failed after all attempts: ${outcomes.filter(({ state }) => state === "failed").length}`)

const isBroken = ({ errors, posts }: typeof outcomes[number]) =>
  posts.length < 1 || posts.length > 5 || errors.length > 5 || posts.length > errors.length ||
  new Set(posts.map(({ body }) => body)).size > 1
const broken = outcomes.filter(isBroken)
if (broken.length > 0) {
  console.error(`broken: ${JSON.stringify(broken, null, 2)}`)
  process.exitCode = 1
}
