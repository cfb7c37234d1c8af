/**
 * The files of `src` that one task executes, from POST to the delivered webhook, and not an idle service of the same seconds:
 * `npm run bench:walk`. Each with its calls; the functions are counted by V8. It fails when the walk in the page of the services lacks one.
 */
import * as path from "node:path"
import { steps } from "../docs/walk.ts"
import { LoopbackServer } from "../kit/LoopbackServer.ts"
import { complete } from "../kit/ScriptedCore.ts"
import { eventually, freePort, mint, Service } from "../kit/Service.ts"
import { startBench } from "./bench.ts"

const root = path.resolve(import.meta.dirname, "../..")
const bench = await startBench({ WEBHOOK_ALLOW_PRIVATE: "127.0.0.1" })
const inspector = await freePort()
const service = await Service.start(bench.settings, undefined, [
  `--inspect=127.0.0.1:${inspector}`,
  "src/runtime/Main.ts"
])

const [target] = await (await fetch(`http://127.0.0.1:${inspector}/json`)).json() as ReadonlyArray<
  { readonly webSocketDebuggerUrl: string }
>
const socket = new WebSocket(target!.webSocketDebuggerUrl)
await new Promise((resolve) => socket.addEventListener("open", resolve, { once: true }))
let next = 0
// oxlint-disable-next-line typescript/no-explicit-any -- the inspector's answers
const ask = (method: string, params: object = {}): Promise<any> =>
  new Promise((resolve) => {
    const id = ++next
    const onMessage = ({ data }: MessageEvent) => {
      const message = JSON.parse(String(data))
      if (message.id !== id) return
      socket.removeEventListener("message", onMessage)
      resolve(message.result)
    }
    socket.addEventListener("message", onMessage)
    socket.send(JSON.stringify({ id, method, params }))
  })

interface Covered {
  readonly url: string
  readonly functions: ReadonlyArray<{ readonly ranges: ReadonlyArray<{ readonly count: number }> }>
}

/** The calls of each file of `src` since the last call. */
const calls = async () => {
  const { result } = await ask("Profiler.takePreciseCoverage") as { readonly result: ReadonlyArray<Covered> }
  return new Map(
    result.filter(({ url }) => url.includes("/src/")).map(({ functions, url }) =>
      [
        path.relative(root, new URL(url).pathname),
        functions.reduce((sum, { ranges }) => sum + ranges[0]!.count, 0)
      ] as const
    ).filter(([, count]) => count > 0)
  )
}

const receiver = new LoopbackServer()
let received = 0
receiver.respond = (request, response) => {
  received++
  request.resume()
  response.writeHead(204).end()
}
await receiver.listen()

const token = await mint("walker")
const oneTask = async () => {
  const before = received
  const { body } = await service.call("POST", "/api/tasks", token, {
    assistant_id: 1,
    callback_url: receiver.url,
    input: [{ type: "text", text: "hello" }]
  })
  await eventually(async () => bench.core.runs.find((run) => run.task_id === body.uuid), (run) => run !== undefined)
  await complete(bench.core.runs.find((run) => run.task_id === body.uuid)!)
  await eventually(async () => received, (count) => count > before)
  await service.call("GET", `/api/tasks/${body.uuid}`, token)
}

await oneTask()
await ask("Profiler.enable")
await ask("Profiler.startPreciseCoverage", { callCount: true, detailed: false })
await calls()
const started = performance.now()
for (let task = 0; task < 20; task++) await oneTask()
const seconds = performance.now() - started
const busy = await calls()
await new Promise((resolve) => setTimeout(resolve, 10_000))
await calls()
await new Promise((resolve) => setTimeout(resolve, seconds))
const idle = await calls()
const walk = [...busy].filter(([file, count]) => count >= 20 && !((idle.get(file) ?? 0) > count / 2)).toSorted()
for (const [file, count] of walk) console.log(`${String(Math.round(count / 20)).padStart(6)}  ${file}`)
console.log(`${walk.length} files, ${walk.reduce((sum, [, count]) => sum + count, 0) / 20} calls a task`)
const named = new Set(steps().flat())
/** The walk is that of the core. */
const ofExtensions =
  /^src\/(?:services|http)\/(?:schedules|usage|operator|endpoints|facades|openai|mcp|a2a)\/|^src\/domain\/Usage\.ts$/
const missing = walk.map(([file]) => file).filter((file) => !named.has(file) && !ofExtensions.test(file))
for (const file of missing) console.log(`not in the walk of src/services/README.md: ${file}`)
if (missing.length > 0) process.exitCode = 1
socket.close()
await receiver.close()
await service.stop()
await bench.close()
