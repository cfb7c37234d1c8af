/** Responses of the service while the database is unavailable, to 300 readers and 20 creators. */
import { kinds, measureOutage } from "../attack/kit/outage.ts"
import { numbersOf } from "./bench.ts"

/** `pause` is milliseconds between a response and the caller's next request. Zero saturates the node. */
const { pause, seconds } = numbersOf({ seconds: 20, pause: 0 })
const round = (milliseconds: number) => `${Math.round(milliseconds)} ms`

console.log(
  `300 readers, 20 creators, ${pause} ms between calls, database unavailable for ${seconds} s (an immediate restart: as long as it takes)`
)
for (const kind of kinds) {
  const { after, away, before, firstAnswer, health, logged } = await measureOutage(kind, {
    readers: 300,
    creators: 20,
    pause,
    before: 5000,
    outage: seconds * 1000,
    after: 5000
  })
  const ratio = (after / before).toFixed(2)
  console.log(`
${kind}
  /healthz          p99 ${round(health.p99)}, worst ${round(health.worst)}
  in the outage     ${Object.entries(away.statuses).map(([status, count]) => `${status}: ${count}`).join(", ")}
  slowest response  ${round(away.slowest)}
  good responses/s  ${Math.round(before)} before, ${Math.round(after)} from 1 s after its return on (${ratio})
  first good response ${round(firstAnswer)} after its return
  logged            ${logged} bytes`)
}
process.exit(0)
