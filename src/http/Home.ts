/**
 * `GET /` for browsers: a description of the service, its health and links. Without `Accept: text/html` the address
 * answers 404, as before there was a page. The page runs no script and loads nothing.
 */
import { Effect } from "effect"
import { Digest } from "effect/crypto"
import { Base64 } from "effect/encoding"
import { HttpRouter, HttpServerRequest, HttpServerResponse } from "effect/http"
import { Readiness } from "../services/operations/Readiness.ts"
import { ConsoleAudiences } from "./ConsoleAssets.ts"
import { DevelopmentToken, tokenFor } from "./DevelopmentToken.ts"

const styles = `
:root { color-scheme: light dark; --ink: light-dark(#1a1f36, #f2f4f8); --quiet: light-dark(#545b72, #a4acc0);
  --page: light-dark(#f7f8fa, #0f1117); --card: light-dark(#fff, #181b24); --line: light-dark(#e0e4ec, #2a2f3d);
  --accent: light-dark(#4a45d1, #a5a3ff); --good: light-dark(#0a6b43, #4cd69a); --bad: light-dark(#b3261e, #ff9d94) }
* { box-sizing: border-box }
body { margin: 0; background: var(--page); color: var(--ink); font: 16px/1.55 system-ui, sans-serif }
main { max-width: 46rem; margin: 0 auto; padding: clamp(2rem, 8vh, 6rem) 1.25rem 4rem }
h1 { margin: .75rem 0 .5rem; font-size: clamp(1.6rem, 6vw, 2.25rem); line-height: 1.2; letter-spacing: -.02em; text-wrap: balance }
h2 { margin: 2.5rem 0 .75rem; font-size: 1rem }
p { margin: 0 0 1rem; color: var(--quiet); max-width: 38rem }
a { color: var(--accent) }
a:focus-visible, pre:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px }
.health { display: inline-flex; align-items: center; gap: .5rem; margin: 0; font-size: .875rem; font-weight: 600 }
.health::before { content: ""; width: .6rem; height: .6rem; border-radius: 50%; background: currentColor }
.good { color: var(--good) } .bad { color: var(--bad) }
ul { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 13rem), 1fr)); gap: .75rem; margin: 2rem 0 0; padding: 0; list-style: none }
li a { display: block; height: 100%; padding: 1rem 1.125rem; border: 1px solid var(--line); border-radius: .75rem; background: var(--card);
  color: var(--ink); text-decoration: none }
li a:hover { border-color: var(--accent) }
li span { display: block; color: var(--quiet); font-size: .875rem }
pre { margin: 0; padding: 1rem 1.125rem; overflow-x: auto; border: 1px solid var(--line); border-radius: .75rem; background: var(--card);
  font: .8125rem/1.6 ui-monospace, SFMono-Regular, Menlo, monospace; user-select: all; white-space: pre-wrap; overflow-wrap: anywhere }
`

const headersWith = (styleHash: string) => ({
  "content-security-policy":
    `default-src 'none'; style-src 'sha256-${styleHash}'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'`,
  "cache-control": "no-store",
  "referrer-policy": "no-referrer",
  vary: "Accept",
  "x-content-type-options": "nosniff"
})

interface Link {
  readonly path: string
  readonly name: string
  readonly description: string
}

const links: ReadonlyArray<Link> = [
  { path: "/docs", name: "API reference", description: "Every call, with examples to send" },
  { path: "/openapi.json", name: "OpenAPI document", description: "For generated clients" },
  { path: "/readyz", name: "Health", description: "The checks of this node" }
]

/** Both values are checked before: a loopback host, and a JWT. Neither needs escaping. */
const firstTask = (host: string, token: string) => `
<h2 id="try">Create your first task</h2>
<p>The token belongs to the user “developer” and works on this machine for 30 days. The <a href="/docs">API reference</a> already has it.</p>
<pre tabindex="0" aria-labelledby="try">TOKEN=${token}
UUID=$(curl -s http://${host}/api/tasks -H "Authorization: Bearer $TOKEN" \\
  -H 'Content-Type: application/json' \\
  -d '{"assistant_id": 1, "input": [{"type": "text", "text": "What is 6 * 7?"}]}' \\
  | sed 's/.*"uuid":"\\([^"]*\\)".*/\\1/')
curl -s "http://${host}/api/tasks/$UUID?wait=10" -H "Authorization: Bearer $TOKEN"</pre>`

const access = `
<h2>Access</h2>
<p>Every call of the API carries <code>Authorization: Bearer &lt;JWT&gt;</code>. The operator of this service issues the tokens.</p>`

const consoleLink: Link = {
  path: "/console",
  name: "Console",
  description: "Your tasks, their results and their questions"
}

const page = (failing: ReadonlyArray<string>, rest: string, links: ReadonlyArray<Link>) =>
  `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Asynchronous Task Service</title>
<link rel="icon" href="data:,">
<style>${styles}</style>
</head>
<body>
<main>
<p class="health ${failing.length === 0 ? "good" : "bad"}" role="status">${
    failing.length === 0 ? "Ready" : `Not ready: ${failing.join(", ")}`
  }</p>
<h1>Asynchronous Task Service</h1>
<p>Runs AI assistant tasks in the background. Create a task and get its id immediately. Then poll it, follow its events, or receive
a signed webhook when it ends or needs an answer.</p>
<nav aria-label="This service">
<ul>
${
    links.map(({ description, name, path }) => `<li><a href="${path}">${name}<span>${description}</span></a></li>`)
      .join("\n")
  }
</ul>
</nav>
${rest}
</main>
</body>
</html>
`

const notFound = HttpServerResponse.empty({ status: 404 })

const acceptsHtml = (accept: string | undefined) => /(^|[\s,])text\/html\b/i.test(accept ?? "")

export const layer = HttpRouter.use((router) =>
  Effect.gen(function*() {
    const readiness = yield* Readiness
    const mint = yield* DevelopmentToken
    const shown = (yield* ConsoleAudiences).length === 0 ? links : [consoleLink, ...links]
    const digest = yield* Digest.Digest
    const headers = headersWith(Base64.encode(yield* digest.digest(Digest.sha256, new TextEncoder().encode(styles))))
    yield* router.add(
      "GET",
      "/",
      Effect.flatMap(HttpServerRequest.HttpServerRequest, (request) => {
        const { accept, host = "" } = request.headers
        if (!acceptsHtml(accept)) return Effect.succeed(notFound)
        return Effect.map(Effect.all([readiness.checks, tokenFor(mint, request)]), ([checks, token]) => {
          const failing = checks.flatMap(({ name, problem }) => problem === null ? [] : [name])
          const rest = token === undefined ? access : firstTask(host, token)
          return HttpServerResponse.setHeaders(HttpServerResponse.html(page(failing, rest, shown)), headers)
        })
      })
    )
  })
)
