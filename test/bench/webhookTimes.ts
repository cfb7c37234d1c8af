/** The times between the attempts of a delivery whose target always fails, in real time, as the target sees them. */
import { report, ScriptedCore, turnOf } from "../kit/ScriptedCore.ts"
import { eventually, mint, Service } from "../kit/Service.ts"
import { startPostgres } from "../kit/standalone.ts"
import { WebhookTarget } from "../kit/WebhookTarget.ts"

const database = await startPostgres()
const core = await new ScriptedCore().listen()
const target = await new WebhookTarget().listen()
target.onPost = (_, response) => response.writeHead(500).end()
const service = await Service.start({
  DATABASE_URL: await database.makeDatabase("times"),
  CORE_URL: core.url,
  WEBHOOK_ALLOW_PRIVATE: "true"
})
const token = await mint("times")
const { uuid } = (await service.create(token, "x", { callback_url: `${target.origin}/` })).body
const run = await eventually(async () => core.runOf(uuid), (found) => found !== undefined)
await report(run!, { type: "completed", turn: turnOf("done") })
const ended = performance.now()
const posts = await eventually(async () => target.posts, ({ length }) => length === 5, 300_000)
await eventually(
  () => service.call("GET", `/api/tasks/${uuid}/deliveries`, token),
  ({ body }) => body.data[0].state === "failed"
)

console.log(`attempt 1: ${(posts[0]!.at - ended).toFixed(0)} ms after the response to the core's report`)
for (const [index, base] of [10, 30, 60, 120].entries()) {
  const gap = (posts[index + 1]!.at - posts[index]!.at) / 1000
  console.log(
    `attempt ${index + 2}: ${gap.toFixed(2)} s after the one before (${base} s, +${
      ((gap / base - 1) * 100).toFixed(1)
    } %)`
  )
  if (gap < base || gap > base * 1.2) process.exitCode = 1
}
await service.stop()
await core.close()
await target.close()
await database.stop()
