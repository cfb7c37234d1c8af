/**
 * `GET /`: a description of the service, its health and links, as a page for browsers, and as text for `curl` and the like. A request
 * that accepts neither gets 404. The page loads nothing; its only script copies the command.
 */
import { Context, Effect } from "effect"
import { Digest } from "effect/crypto"
import { Base64 } from "effect/encoding"
import { HttpRouter, HttpServerRequest, HttpServerResponse } from "effect/http"
import { isFailing, Readiness } from "../services/operations/Readiness.ts"
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
:is(a, pre, button):focus-visible { outline: 2px solid var(--accent); outline-offset: 2px }
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
button { margin: .75rem 0 0; padding: .5rem 1rem; border: 1px solid var(--line); border-radius: .5rem; background: var(--card);
  color: var(--ink); font: inherit; cursor: pointer }
button:hover { border-color: var(--accent) }
`

/** The command can be selected without it. */
const script = `
const button = document.querySelector("button")
if (button !== null && navigator.clipboard !== undefined) {
  button.hidden = false
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(document.querySelector("pre").textContent)
    button.textContent = "Copied"
  })
}
`

const headersWith = (styleHash: string, scriptHash: string) => ({
  "content-security-policy":
    `default-src 'none'; style-src 'sha256-${styleHash}'; script-src 'sha256-${scriptHash}'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'`,
  "cache-control": "no-store",
  "referrer-policy": "no-referrer",
  vary: "Accept",
  "x-content-type-options": "nosniff"
})

export interface Link {
  readonly path: string
  readonly name: string
  readonly description: string
  /** The path of the page of a task, where its user answers what it asks. */
  readonly taskPath?: (uuid: string) => string
}

/** Links of extensions. */
export const HomeLinks = Context.Reference<ReadonlyArray<Link>>("async-task-service/http/Home/HomeLinks", {
  defaultValue: () => []
})

const links: ReadonlyArray<Link> = [
  { path: "/docs", name: "API reference", description: "Every call, with examples to send" },
  { path: "/openapi.json", name: "OpenAPI document", description: "For generated clients" },
  { path: "/llms.txt", name: "Reference as text", description: "For models that write code" },
  { path: "/readyz", name: "Health", description: "The checks of this node" }
]

/** Both values are checked before: a loopback host, and a JWT. Neither needs escaping. */
const commands = (host: string, token: string) =>
  `TOKEN=${token}
UUID=$(curl -s http://${host}/api/tasks -H "Authorization: Bearer $TOKEN" \\
  -H 'Content-Type: application/json' \\
  -d '{"assistant_id": 1, "input": [{"type": "text", "text": "What is 6 * 7?"}]}' \\
  | sed 's/.*"uuid":"\\([^"]*\\)".*/\\1/')
curl -s "http://${host}/api/tasks/$UUID?wait=10" -H "Authorization: Bearer $TOKEN"`

const firstTask = (host: string, token: string) => `
<h2 id="try">Create your first task</h2>
<p>The token belongs to the user “developer” and works on this machine for 30 days. The <a href="/docs">API reference</a> already has it.</p>
<pre tabindex="0" aria-labelledby="try">${commands(host, token)}</pre>
<button type="button" hidden>Copy the command</button>`

const access = `
<h2>Access</h2>
<p>Every call of the API carries <code>Authorization: Bearer &lt;JWT&gt;</code>. The operator of this service issues the tokens.</p>`

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
<script>${script}</script>
</body>
</html>
`

const isPlainHost = (host: string) => /^[A-Za-z0-9.:[\]-]{1,255}$/.test(host)

/** The same for a terminal. */
const textOf = (
  failing: ReadonlyArray<string>,
  host: string,
  token: string | undefined,
  links: ReadonlyArray<Link>
) => {
  const width = Math.max(...links.map(({ name }) => name.length)) + 2
  const state = failing.length === 0 ? "Ready" : `Not ready: ${failing.join(", ")}`
  return [
    `Asynchronous Task Service. ${state}.`,
    "",
    ...links.map(({ name, path }) => `${name.padEnd(width)}${isPlainHost(host) ? host : ""}${path}`),
    "",
    token === undefined
      ? "Every call of the API carries \"Authorization: Bearer <JWT>\". The operator of this service issues the tokens."
      : `Create your first task:\n\n${commands(host, token)}`,
    ""
  ].join("\n")
}

const notFound = HttpServerResponse.empty({ status: 404 })

const acceptsHtml = (accept: string) => /(^|[\s,])text\/html\b/i.test(accept)
const acceptsText = (accept: string) => /(^|[\s,])(\*|text)\/(\*|plain)/i.test(accept)

export const layer = HttpRouter.use((router) =>
  Effect.gen(function*() {
    const readiness = yield* Readiness
    const mint = yield* DevelopmentToken
    const shown = [...yield* HomeLinks, ...links]
    const digest = yield* Digest.Digest
    const hashOf = (text: string) =>
      Effect.map(digest.digest(Digest.sha256, new TextEncoder().encode(text)), Base64.encode)
    const headers = headersWith(yield* hashOf(styles), yield* hashOf(script))
    yield* router.add(
      "GET",
      "/",
      Effect.flatMap(HttpServerRequest.HttpServerRequest, (request) => {
        const { accept = "", host = "" } = request.headers
        const isPage = acceptsHtml(accept)
        if (!isPage && !acceptsText(accept)) return Effect.succeed(notFound)
        return Effect.map(Effect.all([readiness.checks, tokenFor(mint, request)]), ([checks, token]) => {
          const failing = checks.filter(isFailing).map(({ name }) => name)
          if (!isPage) {
            return HttpServerResponse.setHeaders(HttpServerResponse.text(textOf(failing, host, token, shown)), headers)
          }
          const rest = token === undefined ? access : firstTask(host, token)
          return HttpServerResponse.setHeaders(HttpServerResponse.html(page(failing, rest, shown)), headers)
        })
      })
    )
  })
)
