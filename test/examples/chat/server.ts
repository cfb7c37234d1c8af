/** Serves the page of the chat, and a token for it. An app of your own mints one for the user who is logged in. */
import { createServer } from "node:http"
import { rolldown } from "rolldown"

const { ASSISTANT_ID = "1", PORT = "3002", TASK_SERVICE_TOKEN = "", TASK_SERVICE_URL = "http://127.0.0.1:3000" } =
  process.env

const bundle = await rolldown({
  input: `${import.meta.dirname}/page.tsx`,
  platform: "browser",
  transform: { define: { "process.env.NODE_ENV": "\"production\"" } }
})
const { output: [{ code }] } = await bundle.generate({ minify: true })

const page = `<!doctype html>
<html lang="en">
  <meta charset="utf-8">
  <meta name="viewport" content="width=device-width">
  <title>Chat</title>
  <style>
    body { font: 16px/1.5 system-ui; max-width: 40rem; margin: 2rem auto; padding: 0 1rem }
    .user { font-weight: 600 }
    .message { white-space: pre-wrap; overflow-wrap: anywhere }
  </style>
  <main id="root"></main>
  <script type="module" src="/page.js"></script>
</html>`

const config = { url: TASK_SERVICE_URL, token: TASK_SERVICE_TOKEN, assistant_id: Number(ASSISTANT_ID) }

const files: Readonly<Record<string, readonly [string, string]>> = {
  "/": ["text/html", page],
  "/page.js": ["text/javascript", code],
  "/config.json": ["application/json", JSON.stringify(config)]
}

createServer((request, response) => {
  const [type, content] = files[new URL(request.url ?? "/", "http://localhost").pathname] ?? []
  if (type === undefined) response.writeHead(404).end()
  else response.writeHead(200, { "content-type": type, "cache-control": "no-store" }).end(content)
}).listen(Number(PORT), "127.0.0.1", () => console.log(`http://127.0.0.1:${PORT}`))
