/** The peer of the upload benchmark: a plain `node:http` proxy that pipes bodies both ways without checks. */
import { createServer, request } from "node:http"

const backend = new URL(String(process.env["BACKEND_URL"]))

createServer({ requestTimeout: 0 }, (incoming, outgoing) => {
  const forwarded = request(backend, {
    method: incoming.method,
    path: incoming.url?.replace(/^\/api/, "") ?? "/",
    headers: incoming.headers
  }, (answer) => {
    outgoing.writeHead(answer.statusCode ?? 502, answer.headers)
    answer.pipe(outgoing)
  })
  forwarded.on("error", () => outgoing.destroy())
  incoming.pipe(forwarded)
}).listen(Number(process.env["PORT"]), "127.0.0.1")
