/**
 * Polls per second of a completed task whose turn is 1 MB, with and without `If-None-Match`, alternating in one run.
 */
import autocannon from "autocannon"
import { report, ScriptedCore, turnOf } from "../kit/ScriptedCore.ts"
import { eventually, mint, Service } from "../kit/Service.ts"
import { startPostgres } from "../kit/standalone.ts"

const rounds = Number(process.argv[2] ?? 3)
const seconds = Number(process.argv[3] ?? 5)
const connections = 16

const database = await startPostgres()
const core = await new ScriptedCore().listen()
const service = await Service.start({ CORE_URL: core.url, DATABASE_URL: database.url })
const token = await mint("poller")

const { uuid } = (await service.create(token, "x")).body
const run = await eventually(async () => core.runOf(uuid), (found) => found !== undefined)
await report(run!, { type: "completed", turn: turnOf("x".repeat(1_000_000)) })
const etag = (await service.get(token, uuid)).headers.get("etag") ?? ""

const measure = async (headers: Record<string, string>, status: string) => {
  const result = await autocannon({
    url: `${service.url}/api/tasks/${uuid}`,
    connections,
    duration: seconds,
    headers: { authorization: `Bearer ${token}`, ...headers }
  })
  const counts = result.statusCodeStats as unknown as Record<string, { readonly count: number }>
  const others = Object.keys(counts).filter((code) => code !== status)
  if (others.length > 0 || result.errors > 0) throw new Error(`responses ${others.join()}, ${result.errors} errors`)
  return { perSecond: result.requests.average, p99: result.latency.p99, megabytes: result.throughput.average / 1e6 }
}

const whole = () => measure({}, "200")
const unchanged = () => measure({ "if-none-match": etag }, "304")
await whole()
await unchanged()
for (let round = 1; round <= rounds; round++) {
  const [full, tagged] = [await whole(), await unchanged()]
  console.log(
    `round ${round}: whole ${full.perSecond.toFixed(0)}/s (p99 ${full.p99} ms, ${full.megabytes.toFixed(0)} MB/s); `
      + `If-None-Match ${tagged.perSecond.toFixed(0)}/s (p99 ${tagged.p99} ms); ratio ${
        (tagged.perSecond / full.perSecond).toFixed(1)
      }`
  )
}

await service.stop()
await core.close()
await database.stop()
