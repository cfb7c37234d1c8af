/**
 * The smallest processing core: it accepts each run and reports it as completed, with a text of `RESULT` bytes, again until the service has
 * taken the event.
 */
import { randomUUID } from "node:crypto"
import { Agent, createServer, request } from "node:http"
import { internalToken } from "../kit/Service.ts"

const agent = new Agent({ keepAlive: true, maxSockets: 64 })
/** Milliseconds. */
const retryAfter = 100
const text = "2".repeat(Number(process.env["RESULT"] ?? 1))
const turn = { output: [{ type: "text", text }], messages: [], metadata: {} }

const report = (url: string, event: string) => {
  const again = () => setTimeout(report, retryAfter, url, event)
  request(url, {
    agent,
    method: "POST",
    headers: { authorization: `Bearer ${internalToken}`, "content-type": "application/json" }
  }, (answered) => {
    answered.resume()
    if (answered.statusCode! >= 500) again()
  }).on("error", again).end(event)
}

createServer(async (incoming, response) => {
  let body = ""
  for await (const chunk of incoming) body += chunk
  response.writeHead(202).end()
  if (incoming.url !== "/runs") return
  const { events_url, run_id, task_id } = JSON.parse(body) as Record<string, string>
  report(events_url!, JSON.stringify({ task_id, run_id, event_id: randomUUID(), type: "completed", turn }))
}).listen(Number(process.env["PORT"]), "127.0.0.1")
