/**
 * Create requests per second, compared with fastify and postgres.js doing the same insert and JWT check. Both run
 * alternately, each on its own database of one Postgres. Ours also dispatches every task to a core; the peer does not. Both begin
 * with `warmUp` seconds that do not count, in which V8 compiles: `npm run bench -- [rounds] [seconds] [warmUp]` (5, 5 and 20).
 */
import { jwtSecret, Service } from "../kit/Service.ts"
import { compare, numbersOf, startBench, startScript } from "./bench.ts"
import { measureCreates } from "./creates.ts"

const { rounds, seconds, warmUp } = numbersOf({ rounds: 5, seconds: 5, warmUp: 20 })

const bench = await startBench()
// A run would be kept for each task.
bench.core.respond = (request, response) => request.resume().on("end", () => response.writeHead(202).end())
const ours = await bench.start()

// The peer uses our schema, which a start of our service creates.
const DATABASE_URL = await bench.database.makeDatabase("peer")
await (await Service.start({ DATABASE_URL, CORE_URL: bench.core.url })).stop()
const peer = await startScript("peer.ts", { DATABASE_URL, JWT_SECRET: jwtSecret })

if (warmUp > 0) {
  await measureCreates(ours.url, ours.process.pid!, warmUp)
  await measureCreates(peer.url, peer.pid, warmUp)
}
await compare(
  "create",
  rounds,
  { name: "ours", measure: () => measureCreates(ours.url, ours.process.pid!, seconds) },
  { name: "fastify + postgres", measure: () => measureCreates(peer.url, peer.pid, seconds) }
)
peer.stop()
await ours.stop()
await bench.close()
