/** A processing core: it echoes the input, and calls the first client tool if there is one. */
import { createServer } from "node:http"
import { json } from "node:stream/consumers"
import { setTimeout as pause } from "node:timers/promises"

const { CORE_EVENT_TOKEN = "", CORE_PORT = "3001", CORE_ROOM = "100", CORE_TOKEN = "" } = process.env
const silence = 60

interface Run {
  readonly task_id: string
  readonly run_id: string
  readonly events_url: string
  readonly input: ReadonlyArray<{ readonly text?: string }>
  readonly client_tools: ReadonlyArray<{ readonly name: string }>
  readonly resume: { readonly results: ReadonlyArray<unknown> } | null
}

/** The runs in progress. A run that is started again while it is here goes on. */
const runs = new Map<string, AbortController>()
/** Those that have not come to their last event; CORE_ROOM of them at most. */
const working = new Set<string>()

/** Reports an event until the service has answered. Any other answer than 200 means that the run is over. */
const report = async ({ events_url, run_id, task_id }: Run, event: object, signal: AbortSignal) => {
  const body = JSON.stringify({ task_id, run_id, event_id: crypto.randomUUID(), ...event })
  const headers = { authorization: `Bearer ${CORE_EVENT_TOKEN}`, "content-type": "application/json" }
  for (let delay = 100;; delay = Math.min(2 * delay, 2000)) {
    const status = await fetch(events_url, { method: "POST", headers, body, signal }).then(
      (answer) => answer.status,
      () => 503
    )
    if (status === 200) return
    if (status !== 429 && status < 500) return runs.get(run_id)?.abort()
    await pause(delay, undefined, { signal })
  }
}

const turnOf = (text: string) => ({ output: [{ type: "text", text }], messages: [], metadata: {} })

const work = async (run: Run, signal: AbortSignal) => {
  // This event accepts the run, within 30 s. The answer 202 does not.
  await report(run, { type: "processing" }, signal)
  // Long work goes here. Meanwhile the run gives signs of life.
  const signs = setInterval(() => void report(run, { type: "progress" }, signal).catch(() => {}), (silence / 3) * 1000)
  signal.addEventListener("abort", () => clearInterval(signs))
  const [tool] = run.client_tools
  const text = run.resume === null ? run.input.map((item) => item.text).join(" ") : JSON.stringify(run.resume.results)
  const event = tool === undefined || run.resume !== null
    ? { type: "completed", turn: turnOf(text) }
    : { type: "interrupted", tool_calls: [{ id: "call_1", name: tool.name, arguments: {} }], state: {} }
  // Before the report: the service sends the next run when it knows that this one has ended.
  working.delete(run.run_id)
  await report(run, event, signal)
}

createServer(async (request, response) => {
  if (request.headers.authorization !== `Bearer ${CORE_TOKEN}`) return void response.writeHead(401).end()
  const body = await json(request) as Run
  const stopped = /^\/runs\/([^/]+)\/stop$/.exec(request.url ?? "")?.[1]
  const id = stopped ?? body.run_id
  const known = runs.get(id)
  if (stopped !== undefined) return void (known?.abort(), response.writeHead(known === undefined ? 404 : 202).end())
  // A core without room takes nothing. The task waits in the service, and does not fail.
  if (known === undefined && working.size >= Number(CORE_ROOM)) {
    return void response.writeHead(429, { "retry-after": "1" }).end()
  }
  const started = known ?? new AbortController()
  const ended = () => (started.abort(), runs.delete(id), working.delete(id))
  if (known === undefined) {
    runs.set(id, started)
    working.add(id)
    work(body, started.signal).catch(() => {}).finally(ended)
  }
  response.writeHead(202, { "content-type": "application/json" }).end(JSON.stringify({ silence_seconds: silence }))
}).listen(Number(CORE_PORT), () => console.log(`core: http://127.0.0.1:${CORE_PORT}`))
