/** The times between the attempts of a delivery whose target always fails, in real time, as the target sees them. */
import { complete } from "../kit/ScriptedCore.ts"
import { WebhookTarget } from "../kit/ScriptedService.ts"
import { eventually, mint } from "../kit/Service.ts"
import { startBench } from "./bench.ts"

const { close, core, start } = await startBench({ WEBHOOK_ALLOW_PRIVATE: "true" })
const target = await new WebhookTarget().listen()
target.script = (_, response) => response.writeHead(500).end()
const service = await start()
const token = await mint("times")
const { uuid } = (await service.create(token, "x", { callback_url: `${target.url}/` })).body
await complete(await core.run(uuid))
const ended = performance.now()
const posts = await eventually(async () => target.received, ({ length }) => length === 5, 300_000)
await eventually(
  () => service.call("GET", `/api/tasks/${uuid}/deliveries`, token),
  ({ body }) => body.data[0].state === "failed"
)

console.log(`attempt 1: ${(posts[0]!.at - ended).toFixed(0)} ms after the response to the core's report`)
for (const [index, base] of [10, 30, 60, 120].entries()) {
  const gap = (posts[index + 1]!.at - posts[index]!.at) / 1000
  const more = ((gap / base - 1) * 100).toFixed(1)
  console.log(`attempt ${index + 2}: ${gap.toFixed(2)} s after the one before (${base} s, +${more} %)`)
  if (gap < base || gap > base * 1.2) process.exitCode = 1
}
await service.stop()
await target.close()
await close()
