/** The OpenAPI document as a page: plain HTML with a form that sends requests. It loads nothing from other origins. */

/** A part of the document, which `contract` makes. */
// oxlint-disable-next-line typescript/no-explicit-any -- the document is JSON of many shapes
type Node = any

/** The place of a token in the page. */
export const tokenField = `<input id="token" name="token" autocomplete="off" spellcheck="false" value="`

const entities: Readonly<Record<string, string>> = { "&": "&amp;", "<": "&lt;", ">": "&gt;", "\"": "&quot;" }
const escape = (text: unknown): string => String(text).replaceAll(/[&<>"]/g, (character) => entities[character] ?? "")

/** Plain text with code and links, as descriptions have them. */
const prose = (text: string | undefined): string =>
  escape(text ?? "")
    .replaceAll(/`([^`]+)`/g, "<code>$1</code>")
    .replaceAll(/\[([^\]]+)\]\(((?:https?:|\/)[^)\s]+)\)/g, `<a href="$2">$1</a>`)

const json = (value: unknown): string => escape(JSON.stringify(value, null, 2))

const referenceOf = ({ $ref: reference }: Node): string | undefined => reference?.split("/").at(-1)

/** The type of a schema in words, with links to named ones. */
const typeOf = (schema: Node): string => {
  const name = referenceOf(schema)
  if (name !== undefined) return `<a href="#schema/${escape(name)}">${escape(name)}</a>`
  const choices = schema.oneOf ?? schema.anyOf
  if (choices !== undefined) return choices.map(typeOf).join(" or ")
  if (schema.allOf !== undefined) return schema.allOf.map(typeOf).join(" and ")
  if (schema.enum !== undefined) {
    return schema.enum.map((value: unknown) => `<code>${escape(JSON.stringify(value))}</code>`).join(", ")
  }
  if (schema.items !== undefined) return `array of ${typeOf(schema.items)}`
  return escape([schema.type ?? "any"].flat().join(" or "))
}

const entry = (term: string, details: string) => `<div><dt>${term}</dt><dd>${details}</dd></div>`

/** The fields of an object. */
const fields = ({ properties = {}, required = [] }: Node): string => {
  const entries = Object.entries<Node>(properties).map(([name, schema]) =>
    entry(
      `<code>${escape(name)}</code>${required.includes(name) ? " (required)" : ""}`,
      [typeOf(schema), prose(schema.description)].filter((text) => text !== "").join(". ")
    )
  )
  return entries.length === 0 ? "" : `<dl>${entries.join("")}</dl>`
}

const code = (label: string, text: string) =>
  `<pre tabindex="0" role="group" aria-label="${escape(label)}">${text}</pre>`

const exampleOf = (content: Node): Node => Object.values<Node>(content?.examples ?? {})[0]?.value ?? content?.example

/** The body of a request or a response. */
const body = (label: string, content: Node = {}): string =>
  Object.entries<Node>(content).map(([type, media]) => {
    const example = exampleOf(media)
    const shown = example === undefined ? "" : code(`${label}, example`, json(example))
    return `<p>${escape(type)}: ${typeOf(media.schema ?? {})}</p>${
      referenceOf(media.schema ?? {}) ? "" : fields(media.schema ?? {})
    }${shown}`
  }).join("")

const responses = (label: string, all: Node, document: Node): string =>
  Object.entries<Node>(all).map(([status, given]) => {
    const name = referenceOf(given)
    const response = name === undefined ? given : document.components.responses[name]
    return `<details${status.startsWith("2") ? " open" : ""}><summary><b>${escape(status)}</b> ${
      prose(response.description)
    }</summary>${body(`${label}, ${status}`, response.content)}</details>`
  }).join("")

interface Operation {
  readonly method: string
  readonly path: string
  readonly node: Node
}

/** A command for a shell. */
const curl = ({ method, node, path }: Operation): string => {
  const content = node.requestBody?.content ?? {}
  const example = exampleOf(content["application/json"])
  const lines = [
    `curl${method === "get" ? "" : ` -X ${method.toUpperCase()}`} "$URL${path}"`,
    ...(node.security?.length === 0 ? [] : [`-H "Authorization: Bearer YOUR_SECRET_TOKEN"`]),
    ...(example === undefined ? [] : [`-H "Content-Type: application/json"`, `-d '${JSON.stringify(example)}'`]),
    ...(content["multipart/form-data"] === undefined ? [] : ["-F file=@notes.txt"])
  ]
  return escape(lines.join(" \\\n  "))
}

/** What the form needs to know of an operation. */
const formOf = ({ method, node, path }: Operation) => ({
  method,
  path,
  parameters: (node.parameters ?? []).filter((one: Node) => one.in === "path" || one.in === "query")
    .map((one: Node) => ({ name: one.name, in: one.in })),
  body: exampleOf(node.requestBody?.content?.["application/json"]) ?? null,
  isUpload: node.requestBody?.content?.["multipart/form-data"] !== undefined
})

const article = (operation: Operation, document: Node, canSend: boolean): string => {
  const { method, node, path } = operation
  const title = `${method.toUpperCase()} ${path}`
  const parameters = (node.parameters ?? []).map((one: Node) =>
    entry(
      `<code>${escape(one.name)}</code> in ${escape(one.in)}${one.required === true ? " (required)" : ""}`,
      [typeOf(one.schema ?? {}), prose(one.description)].filter((text) => text !== "").join(". ")
    )
  )
  const request = node.requestBody === undefined
    ? ""
    : `<h4>Request</h4><p>${prose(node.requestBody.description)}</p>${body(title, node.requestBody.content)}`
  const send = canSend
    ? `<button type="button" data-form="${escape(JSON.stringify(formOf(operation)))}">Test Request (${
      escape(`${method} ${path}`)
    })</button>${code(`curl ${title}`, curl(operation))}`
    : ""
  return `<article id="tag/${escape(node.tags?.[0] ?? "")}/${escape(method.toUpperCase() + path)}">
<h3>${prose(node.summary ?? node.operationId)}</h3>
<p class="call"><code>${escape(title)}</code></p>
<p>${prose(node.description)}</p>
${send}
${parameters.length === 0 ? "" : `<h4>Parameters</h4><dl>${parameters.join("")}</dl>`}
${request}
<h4>Responses</h4>
${responses(title, node.responses ?? {}, document)}
</article>`
}

const methods = ["get", "post", "put", "patch", "delete"]

const operationsOf = (paths: Node = {}): ReadonlyArray<Operation> =>
  Object.entries<Node>(paths).flatMap(([path, item]) =>
    methods.flatMap((method) => item[method] === undefined ? [] : [{ method, path, node: item[method] }])
  )

const section = (id: string, title: string, description: string, content: string) =>
  `<section aria-labelledby="${id}"><h2 id="${id}">${escape(title)}</h2><p>${description}</p>${content}</section>`

const sections = (document: Node): string => {
  const operations = operationsOf(document.paths)
  const tags: ReadonlyArray<Node> = document.tags ?? []
  const known = new Set(tags.map(({ name }) => name))
  const rest = operations.some(({ node }) => !known.has(node.tags?.[0])) ? [{ name: "other" }] : []
  return [...tags, ...rest].map(({ description, name }) => {
    const own = operations.filter(({ node }) => (known.has(node.tags?.[0]) ? node.tags[0] : "other") === name)
    const calls = own.map((operation) => article(operation, document, true)).join("\n")
    return section(`tag/${escape(name)}`, name, prose(description), calls)
  }).join("\n")
}

const calls = (document: Node): string => {
  const own = operationsOf(document.webhooks)
  if (own.length === 0) return ""
  const text = own.map((operation) => article(operation, document, false)).join("\n")
  return section("calls", "Calls of the service", "Requests that the service sends.", text)
}

const schemas = ({ components }: Node): string => {
  const all = Object.entries<Node>(components?.schemas ?? {}).map(([name, schema]) =>
    `<article id="schema/${escape(name)}"><h3>${escape(name)}</h3><p>${prose(schema.description)}</p>${
      schema.properties === undefined ? `<p>${typeOf(schema)}</p>` : fields(schema)
    }</article>`
  )
  return section("schemas", "Schemas", "", all.join("\n"))
}

const links = (document: Node): string =>
  operationsOf(document.paths).map(({ method, node, path }) =>
    `<li><a href="#tag/${escape(node.tags?.[0] ?? "")}/${escape(method.toUpperCase() + path)}"><code>${
      escape(method.toUpperCase())
    } ${escape(path)}</code></a></li>`
  ).join("")

const styles = `
:root { color-scheme: light dark; --ink: light-dark(#1a1f36, #f2f4f8); --quiet: light-dark(#545b72, #a4acc0);
  --page: light-dark(#f7f8fa, #0f1117); --card: light-dark(#fff, #181b24); --line: light-dark(#c9cfdb, #2a2f3d); --accent: light-dark(#4a45d1, #a5a3ff) }
* { box-sizing: border-box }
body { margin: 0 auto; max-width: 60rem; padding: 1.5rem 1rem 4rem; background: var(--page); color: var(--ink); font: 16px/1.55 system-ui, sans-serif;
  overflow-wrap: anywhere }
a { color: var(--accent) } h2 { margin-top: 3rem } h3 { margin: 0 } h4 { margin: 1.25rem 0 .25rem }
nav ul { columns: 18rem; padding-left: 1.25rem }
article { margin: 1rem 0; padding: 1rem; border: 1px solid var(--line); border-radius: .75rem; background: var(--card) }
p:empty { display: none }
dl, dd { margin: 0 } dl > div { padding: .4rem 0; border-top: 1px solid var(--line) } dd { color: var(--quiet) }
pre, textarea, input, output { font: .8125rem/1.6 ui-monospace, SFMono-Regular, Menlo, monospace }
pre { overflow-x: auto; white-space: pre-wrap; margin: .5rem 0; padding: .75rem; border: 1px solid var(--line); border-radius: .5rem; max-height: 24rem }
summary { cursor: pointer; padding: .2rem 0 }
button { padding: .45rem .8rem; border: 1px solid var(--accent); border-radius: .5rem; background: none; color: var(--accent); font: inherit; cursor: pointer }
:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px }
dialog { width: min(44rem, calc(100vw - 1rem)); border: 1px solid var(--line); border-radius: .75rem; background: var(--card); color: var(--ink) }
label { display: block; margin: .6rem 0 } input, textarea { display: block; width: 100%; padding: .4rem; border: 1px solid var(--quiet); border-radius: .4rem;
  background: var(--page); color: var(--ink) }
textarea { min-height: 10rem } output { display: block; white-space: pre-wrap; margin-top: .75rem }
`

/** Runs in the browser: opens the form of an operation and sends its request. */
const script = `
const dialog = document.querySelector("dialog"), rest = document.getElementById("rest"), title = document.getElementById("title")
const answer = document.querySelector("output"), token = document.getElementById("token")
let form
const add = (name, element) => {
  const label = document.createElement("label")
  label.append(name, element)
  rest.append(label)
  return element
}
document.addEventListener("click", ({ target }) => {
  if (!target.dataset.form) return
  form = JSON.parse(target.dataset.form)
  title.textContent = form.method.toUpperCase() + " " + form.path
  rest.replaceChildren()
  answer.textContent = ""
  form.inputs = form.parameters.map(({ name }) => add(name, document.createElement("input")))
  form.file = form.isUpload ? add("file", Object.assign(document.createElement("input"), { type: "file" })) : undefined
  form.text = form.body === null ? undefined : add("body", document.createElement("textarea"))
  if (form.text) form.text.value = JSON.stringify(form.body, null, 2)
  dialog.showModal()
})
document.getElementById("send").addEventListener("click", async () => {
  let path = form.path
  const query = new URLSearchParams()
  form.parameters.forEach((parameter, index) => {
    const { value } = form.inputs[index]
    if (parameter.in === "path") path = path.replace("{" + parameter.name + "}", encodeURIComponent(value))
    else if (value !== "") query.append(parameter.name, value)
  })
  const headers = { authorization: "Bearer " + token.value.trim() }
  let body
  if (form.text) { headers["content-type"] = "application/json"; body = form.text.value }
  if (form.file?.files[0]) { body = new FormData(); body.append("file", form.file.files[0]) }
  answer.textContent = "…"
  try {
    const response = await fetch(path + (query.size > 0 || form.method === "get" && form.parameters.length > 0 ? "?" + query : ""),
      { method: form.method.toUpperCase(), headers, body })
    const text = await response.text()
    let shown = text
    try { shown = JSON.stringify(JSON.parse(text), null, 2) } catch {}
    answer.textContent = response.status + " " + response.statusText + "\\n\\n" + shown
  } catch (error) { answer.textContent = String(error) }
})
document.getElementById("close").addEventListener("click", () => dialog.close())
`

/** The page of a document whose address is `address`. */
export const render = (document: Node, address: string): string =>
  `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${escape(document.info.title)}</title>
<link rel="icon" href="data:,">
<style>${styles}</style>
</head>
<body>
<header>
<h1>${escape(document.info.title)} ${escape(document.info.version)}</h1>
<p>${prose(document.info.description)}</p>
<p><a href="${address}">OpenAPI document</a></p>
</header>
<nav aria-label="Operations"><ul>${links(document)}</ul></nav>
<main>
${sections(document)}
${calls(document)}
${schemas(document)}
</main>
<dialog aria-labelledby="title">
<h2 id="title">Request</h2>
<label>Token${tokenField}"></label>
<div id="rest"></div>
<button type="button" id="send">Send request</button> <button type="button" id="close">Close</button>
<output aria-live="polite"></output>
</dialog>
<script>${script}</script>
</body>
</html>
`
