/**
 * What callers meet while the database is away: `npm run bench:outage -- 60` for outages of 60 s (20 without an argument).
 * 300 readers and 20 creators call again as soon as they are answered.
 */
import { kinds, measureOutage } from "../attack/kit/outage.ts"

const seconds = Number(process.argv[2] ?? 20)
const round = (milliseconds: number) => `${Math.round(milliseconds)} ms`

console.log(`300 readers, 20 creators, database away for ${seconds} s (an immediate restart: as long as it takes)`)
for (const kind of kinds) {
  const { after, away, before, firstAnswer, health, logged } = await measureOutage(kind, {
    readers: 300,
    creators: 20,
    pause: 0,
    before: 5000,
    outage: seconds * 1000,
    after: 5000
  })
  console.log(`
${kind}
  /healthz          p99 ${round(health.p99)}, worst ${round(health.worst)}
  while away        ${Object.entries(away.statuses).map(([status, count]) => `${status}: ${count}`).join(", ")}
  slowest answer    ${round(away.slowest)}
  good answers/s    ${Math.round(before)} before, ${Math.round(after)} from 1 s after its return on (${
    (after / before).toFixed(2)
  })
  first good answer ${round(firstAnswer)} after its return
  logged            ${logged} bytes`)
}
process.exit(0)
