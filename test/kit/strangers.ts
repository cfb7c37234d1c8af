/** Requests that reach a development service through a browser, a name or a proxy that is not the developer's own. */
import { request } from "node:http"
import { text } from "node:stream/consumers"

export const html = { accept: "text/html,application/xhtml+xml,*/*;q=0.8" }

/** Sends headers that `fetch` does not let a caller set; a POST with a body. */
export const send = (url: string, path: string, headers: Readonly<Record<string, string>>, body?: string) =>
  new Promise<string>((resolve, reject) => {
    const sent = { connection: "keep-alive", ...html, ...headers }
    const method = body === undefined ? "GET" : "POST"
    request(`${url}${path}`, { method, headers: sent, agent: false }, async (response) => {
      const body = await text(response)
      response.destroy()
      resolve(`HTTP/1.1 ${response.statusCode}\n${JSON.stringify(response.headers)}\n${body}`)
    }).on("error", reject).end(body)
  })

/** Headers that only strangers send. */
export const strangersTo = (port: string): ReadonlyArray<Readonly<Record<string, string>>> => [
  { origin: "https://evil.example" },
  { host: `evil.example:${port}` },
  { host: "127.0.0.1.evil.example" },
  ...[
    "Forwarded",
    "Forwarded-For",
    "X-Forwarded",
    "X-Forwarded-For",
    "X-Forwarded-Proto",
    "X-Real-IP",
    "X-Client-IP",
    "Client-IP",
    "True-Client-IP",
    "X-Cluster-Client-IP",
    "X-Originating-IP",
    "X-Remote-Addr",
    "X-Azure-ClientIP",
    "X-Envoy-External-Address",
    "X-Original-Host",
    "CF-Connecting-IP",
    "Fastly-Client-IP",
    "Fly-Client-IP",
    "CDN-Loop",
    "Via"
  ].map((name) => ({ [name]: "203.0.113.7" })),
  ...["close", "Close", "close, te", "TE , CLOSE"].map((connection) => ({ connection }))
]
