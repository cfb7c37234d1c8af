/** Polls per second of a completed task whose turn is 1 MB, with and without `If-None-Match`, alternating in one run. */
import autocannon from "autocannon"
import { complete } from "../kit/ScriptedCore.ts"
import { mint } from "../kit/Service.ts"
import { compare, numbersOf, startBench } from "./bench.ts"

const { rounds, seconds } = numbersOf({ rounds: 3, seconds: 5 })
const connections = 16

const bench = await startBench()
const service = await bench.start()
const token = await mint("poller")
const { uuid } = (await service.create(token, "x")).body
await complete(await bench.core.run(uuid), "x".repeat(1_000_000))
const etag = (await service.get(token, uuid)).headers.get("etag") ?? ""

const measure = async (headers: Record<string, string>, status: string) => {
  const result = await autocannon({
    url: `${service.url}/api/tasks/${uuid}`,
    connections,
    duration: seconds,
    headers: { authorization: `Bearer ${token}`, ...headers }
  })
  const others = Object.keys(result.statusCodeStats ?? {}).filter((code) => code !== status)
  if (others.length > 0 || result.errors > 0) throw new Error(`responses ${others.join()}, ${result.errors} errors`)
  const rate = result.requests.average
  const megabytes = (result.throughput.average / 1e6).toFixed(0)
  return { rate, text: `${rate.toFixed(0)}/s (p99 ${result.latency.p99} ms, ${megabytes} MB/s)` }
}

await compare(
  "polls with If-None-Match",
  rounds,
  { name: "If-None-Match", measure: () => measure({ "if-none-match": etag }, "304") },
  { name: "whole responses", measure: () => measure({}, "200") }
)
await service.stop()
await bench.close()
