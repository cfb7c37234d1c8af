/** Creates over slow links to the database: all must be taken. Arguments: seconds of each link (default 10). */
import { measureSlowDatabase, type SlowDatabase } from "../attack/kit/slowDatabase.ts"
import { startPostgres } from "../kit/standalone.ts"

const duration = Number(process.argv[2] ?? 10) * 1000
const only = process.argv[3]

const links: Readonly<Record<string, Omit<SlowDatabase, "duration">>> = {
  "0 ms": { callers: 32 },
  "5 ms": { roundTrip: 5, callers: 32 },
  "50 ms": { roundTrip: 50, callers: 32 },
  "200 ms": { roundTrip: 200, callers: 32 },
  "200 ms, three nodes": { roundTrip: 200, callers: 32, nodes: 3 },
  "400 ms": { roundTrip: 400, callers: 32 },
  "600 ms": { roundTrip: 600, callers: 32 },
  "1200 ms": { roundTrip: 1200, callers: 32 },
  "logins of 0.7 s": { login: 700, callers: 32 },
  "logins of 3 s": { login: 3000, callers: 32 },
  "1 Mbit/s, 200 kB": { bytesPerSecond: 125_000, callers: 4, bodyBytes: 200_000 },
  "1 Mbit/s, 200 kB, cluster": { bytesPerSecond: 125_000, callers: 4, bodyBytes: 200_000, isClustered: true }
}

const postgres = await startPostgres()
let number = 0
for (const [name, link] of Object.entries(links)) {
  if (only !== undefined && only !== name) continue
  try {
    const url = await postgres.makeDatabase(`slow${++number}`)
    const { creates, readiness, startedIn } = await measureSlowDatabase(url, { duration, ...link })
    console.log(
      `${name}: started in ${(startedIn / 1000).toFixed(1)} s, creates ${JSON.stringify(creates)}, readiness ${
        JSON.stringify(readiness)
      }`
    )
  } catch (error) {
    console.log(`${name}: ${String(error).slice(0, 1500)}`)
  }
}
await postgres.stop()
