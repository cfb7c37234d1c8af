/** The least that a service of live text can do: copies each line of a batch to the SSE response of its run. */
import * as http from "node:http"
import { text } from "node:stream/consumers"

const readers = new Map<string, http.ServerResponse>()

http.createServer(async (request, response) => {
  const run = new URL(request.url ?? "/", "http://localhost").searchParams.get("run")
  if (request.method === "GET") {
    response.writeHead(200, { "content-type": "text/event-stream" }).flushHeaders()
    if (run !== null) readers.set(run, response)
    else response.end()
    return
  }
  const { events } = JSON.parse(await text(request))
  for (const { append, run_id } of events) {
    readers.get(run_id)?.write(`event: text\ndata: ${JSON.stringify({ offset: 0, text: append.text })}\n\n`)
  }
  response.end(JSON.stringify({ results: events.map(() => ({ applied: true })) }))
}).listen(Number(process.env["PORT"]), "127.0.0.1")
