/**
 * The OpenAPI document as a page: plain HTML with navigation, a filter, examples in three languages, and a form that sends requests. It
 * loads nothing from other origins.
 */
import * as DocsExamples from "./DocsExamples.ts"

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

const resolved = (given: Node, document: Node): Node => {
  const name = referenceOf(given)
  return name === undefined ? given : document.components.responses[name]
}

const responses = (label: string, all: Node, document: Node): string =>
  Object.entries<Node>(all).filter(([status]) => !isError(status)).map(([status, given]) => {
    const response = resolved(given, document)
    return `<details${status.startsWith("2") ? " open" : ""}><summary><b>${escape(status)}</b> ${
      prose(response.description)
    }</summary>${body(`${label}, ${status}`, response.content)}</details>`
  }).join("")

const isError = (status: string) => /^[45]/.test(status)

/** Operations that give an error the same reason before it is described only once. */
const common = 4

/** The reasons of each error, and how many operations have each. */
const reasonsOf = (operations: ReadonlyArray<Operation>, document: Node) => {
  const found = new Map<string, Map<string, { count: number; readonly content: Node }>>()
  for (const { node } of operations) {
    for (const [status, given] of Object.entries<Node>(node.responses ?? {}).filter(([status]) => isError(status))) {
      const { content, description } = resolved(given, document)
      const reasons = found.get(status) ?? new Map<string, { count: number; readonly content: Node }>()
      found.set(status, reasons)
      reasons.set(description, { content, count: (reasons.get(description)?.count ?? 0) + 1 })
    }
  }
  return found
}

type Reasons = ReturnType<typeof reasonsOf>

/** The errors of an operation: links to what all have in common, and its own reasons. */
const errors = (all: Node, document: Node, reasons: Reasons): string => {
  const given = Object.entries<Node>(all).filter(([status]) => isError(status)).map(([status, response]) => {
    const { description } = resolved(response, document)
    return { status, description, isCommon: (reasons.get(status)?.get(description)?.count ?? 0) >= common }
  })
  const link = (status: string) => `<a href="#error/${status}">${status}</a>`
  const own = given.filter(({ isCommon }) => !isCommon)
  const others = given.filter(({ isCommon }) => isCommon)
  return [
    given.length === 0 ? "" : "<h4>Errors</h4>",
    own.length === 0
      ? ""
      : `<dl>${own.map(({ description, status }) => entry(link(status), prose(description))).join("")}</dl>`,
    others.length === 0
      ? ""
      : `<p>${own.length === 0 ? "" : "Also "}${others.map(({ status }) => link(status)).join(", ")}</p>`
  ].join("")
}

const errorSection = (reasons: Reasons): string => {
  const all = [...reasons].toSorted(([one], [other]) => Number(one) - Number(other)).map(([status, found]) => {
    const shown = [...found].toSorted(([, one], [, other]) => other.count - one.count)
    return `<article id="error/${status}"><h3>${status}</h3>${
      shown.filter(([, { count }], index) => index === 0 || count >= common).map(([description]) =>
        `<p>${prose(description)}</p>`
      ).join("")
    }${body(`Error ${status}`, shown[0]?.[1].content)}</article>`
  })
  return section(
    "errors",
    "Errors",
    "Errors have this in common; an operation names its own reasons.",
    all.join("\n")
  )
}

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

/** The languages of the examples, each with its name. */
const languages = [["curl", "curl"], ["typescript", "TypeScript"], ["python", "Python"]] as const

/** The same call in each language that has a client. Without clients there is only the command. */
const samples = (operation: Operation, title: string, hasClients: boolean): string => {
  const { node, path } = operation
  const call = {
    operationId: String(node.operationId),
    tag: String(node.tags?.[0] ?? ""),
    path,
    body: exampleOf(node.requestBody?.content?.["application/json"]),
    isUpload: node.requestBody?.content?.["multipart/form-data"] !== undefined
  }
  const texts = {
    curl: curl(operation),
    typescript: hasClients ? escape(DocsExamples.typescript(call)) : "",
    python: hasClients ? escape(DocsExamples.python(call)) : ""
  }
  const shown = languages.filter(([language]) => texts[language] !== "")
  const choice = shown.length === 1
    ? ""
    : `<p class="languages" role="group" aria-label="Language">${
      shown.map(([language, name]) => `<button type="button" data-language="${language}">${name}</button>`).join("")
    }</p>`
  return choice +
    shown.map(([language, name]) =>
      `<div class="sample sample-${language}">${code(`${name} ${title}`, texts[language])}</div>`
    ).join("")
}

/** The facts of an operation that the form needs. */
const formOf = ({ method, node, path }: Operation) => ({
  method,
  path,
  parameters: (node.parameters ?? []).filter((one: Node) => one.in === "path" || one.in === "query")
    .map((one: Node) => ({ name: one.name, in: one.in })),
  body: exampleOf(node.requestBody?.content?.["application/json"]) ?? null,
  isUpload: node.requestBody?.content?.["multipart/form-data"] !== undefined
})

interface Context {
  readonly document: Node
  readonly reasons: Reasons
  readonly hasClients: boolean
}

const article = (operation: Operation, { document, hasClients, reasons }: Context, canSend: boolean): string => {
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
    })</button>${samples(operation, title, hasClients)}`
    : ""
  return `<article id="tag/${escape(node.tags?.[0] ?? "")}/${escape(method.toUpperCase() + path)}">
<h3>${prose(node.summary ?? node.operationId)}</h3>
<p class="call"><b class="method">${escape(method.toUpperCase())}</b> <code>${escape(path)}</code></p>
<div class="columns"><div>
<p>${prose(node.description)}</p>
${parameters.length === 0 ? "" : `<h4>Parameters</h4><dl>${parameters.join("")}</dl>`}
${request}
<h4>Responses</h4>
${responses(title, node.responses ?? {}, document)}
${errors(node.responses ?? {}, document, reasons)}
</div><div class="try">${send}</div></div>
</article>`
}

const methods = ["get", "post", "put", "patch", "delete"]

const operationsOf = (paths: Node = {}): ReadonlyArray<Operation> =>
  Object.entries<Node>(paths).flatMap(([path, item]) =>
    methods.flatMap((method) => item[method] === undefined ? [] : [{ method, path, node: item[method] }])
  )

const section = (id: string, title: string, description: string, content: string) =>
  `<section aria-labelledby="${id}"><h2 id="${id}">${escape(title)}</h2><p>${description}</p>${content}</section>`

/** The tags with their operations; those of no known tag are last. */
const groupsOf = (document: Node) => {
  const operations = operationsOf(document.paths)
  const tags: ReadonlyArray<Node> = document.tags ?? []
  const known = new Set(tags.map(({ name }) => name))
  const rest = operations.some(({ node }) => !known.has(node.tags?.[0])) ? [{ name: "other" }] : []
  return [...tags, ...rest].map(({ description, name }) => ({
    name: String(name),
    description: prose(description),
    operations: operations.filter(({ node }) => (known.has(node.tags?.[0]) ? node.tags[0] : "other") === name)
  }))
}

const sections = (context: Context): string =>
  groupsOf(context.document).map(({ description, name, operations }) =>
    section(
      `tag/${escape(name)}`,
      name,
      description,
      operations.map((operation) => article(operation, context, true)).join("\n")
    )
  ).join("\n")

const calls = (context: Context): string => {
  const own = operationsOf(context.document.webhooks)
  if (own.length === 0) return ""
  const text = own.map((operation) => article(operation, context, false)).join("\n")
  return section("calls", "Calls of the service", "Requests that the service sends.", text)
}

const schemas = ({ components }: Node): string => {
  const all = Object.entries<Node>(components?.schemas ?? {}).map(([name, schema]) =>
    `<details class="schema" id="schema/${escape(name)}"><summary>${escape(name)}</summary><p>${
      prose(schema.description)
    }</p>${schema.properties === undefined ? `<p>${typeOf(schema)}</p>` : fields(schema)}</details>`
  )
  return section("schemas", "Schemas", "", all.join("\n"))
}

const navigation = (document: Node): string => {
  const groups = groupsOf(document).map(({ name, operations }) =>
    `<li><a class="group" href="#tag/${escape(name)}">${escape(name)}</a><ul>${
      operations.map(({ method, node, path }) =>
        `<li><a href="#tag/${escape(node.tags?.[0] ?? "")}/${escape(method.toUpperCase() + path)}" title="${
          escape(`${method.toUpperCase()} ${path}`)
        }"><b class="method">${escape(method.toUpperCase())}</b> ${prose(node.summary ?? node.operationId)}</a></li>`
      ).join("")
    }</ul></li>`
  )
  const rest = [
    ...document.webhooks === undefined ? [] : [["calls", "Calls of the service"]],
    ["errors", "Errors"],
    ["schemas", "Schemas"]
  ].map(([id, name]) => `<li><a class="group" href="#${id}">${name}</a></li>`)
  return [...groups, ...rest].join("")
}

const styles = `
:root { color-scheme: light dark; --ink: light-dark(#17171c, #ececf0); --quiet: light-dark(#5d5d68, #a1a1ac); --page: light-dark(#f7f7f8, #0e0f11);
  --card: light-dark(#fff, #16171a); --sunken: light-dark(#f2f2f4, #1e1f23); --line: light-dark(#e0e0e6, #2a2b31); --accent: light-dark(#4c46dc, #9ea1ff) }
* { box-sizing: border-box }
html { scroll-padding-top: 1rem }
body { margin: 0; background: var(--page); color: var(--ink); font: 15px/1.6 system-ui, sans-serif; overflow-wrap: anywhere }
a { color: var(--accent); text-decoration: none } a:hover { text-decoration: underline } p a, dd a { text-decoration: underline; text-underline-offset: 2px }
h1 { margin: 0; font-size: 1.6rem; letter-spacing: -.02em; line-height: 1.25 } h2 { margin: 3rem 0 .25rem; font-size: 1.25rem; text-transform: capitalize }
h3 { margin: 0; font-size: 1.05rem } h4 { margin: 1.25rem 0 .25rem; font-size: .8125rem; color: var(--quiet) } p { margin: .5rem 0 } p:empty { display: none }
.page { display: grid; grid-template-columns: 17rem minmax(0, 1fr) }
.side { position: sticky; top: 0; height: 100vh; overflow-y: auto; padding: 1.25rem .75rem 3rem 1rem; border-right: 1px solid var(--line) }
.side ul { margin: 0; padding: 0; list-style: none } .side a { display: block; padding: .2rem .5rem; border-radius: .4rem; color: var(--quiet); font-size: .875rem; line-height: 1.35 }
.side a:hover, .side a[aria-current] { background: var(--sunken); color: var(--ink); text-decoration: none } .side .group { margin-top: 1rem; color: var(--ink); font-weight: 600; text-transform: capitalize }
.side summary { display: none }
.method { display: inline-block; min-width: 3.2em; color: var(--accent); font: 600 .72rem/1 ui-monospace, SFMono-Regular, Menlo, monospace }
.content { min-width: 0; max-width: 84rem; padding: 1.75rem 2rem 5rem }
article, .schema { margin: 1rem 0; padding: 1.1rem 1.25rem; border: 1px solid var(--line); border-radius: .75rem; background: var(--card) }
.schema { margin: .4rem 0; padding: .4rem 1rem } .call { margin: .25rem 0 0; color: var(--quiet) }
.columns > * { min-width: 0 }
dl, dd { margin: 0 } dl > div { padding: .4rem 0; border-top: 1px solid var(--line) } dd { color: var(--quiet) }
code { font: .875em ui-monospace, SFMono-Regular, Menlo, monospace }
pre, textarea, output { font: .8125rem/1.6 ui-monospace, SFMono-Regular, Menlo, monospace }
pre { overflow-x: auto; white-space: pre-wrap; margin: .5rem 0; padding: .75rem; border-radius: .5rem; background: var(--sunken); max-height: 24rem }
summary { cursor: pointer; padding: .2rem 0 }
button { padding: .35rem .75rem; border: 1px solid var(--line); border-radius: .5rem; background: var(--card); color: var(--ink); font: inherit; font-size: .875rem; cursor: pointer }
button:hover { background: var(--sunken) }
.languages { display: flex; gap: 2px; margin: .75rem 0 0 } .languages button { border-color: transparent; color: var(--quiet); background: none }
.languages button[aria-pressed="true"] { background: var(--sunken); color: var(--ink); font-weight: 600 }
.sample { display: none }
[data-shown="curl"] .sample-curl, [data-shown="typescript"] .sample-typescript, [data-shown="python"] .sample-python, .sample:only-of-type { display: block }
:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px }
:target { border-color: var(--accent) }
dialog { width: min(44rem, calc(100vw - 1rem)); border: 1px solid var(--line); border-radius: .75rem; background: var(--card); color: var(--ink) }
dialog h2 { margin-top: 0; text-transform: none }
label { display: block; margin: .6rem 0 } input, textarea { display: block; width: 100%; padding: .4rem .6rem; border: 1px solid var(--quiet); border-radius: .4rem;
  background: var(--page); color: var(--ink) } input { font: inherit }
textarea { min-height: 10rem } output { display: block; white-space: pre-wrap; margin-top: .75rem } [hidden] { display: none !important }
@media (min-width: 1200px) { .columns { display: grid; grid-template-columns: minmax(0, 1fr) minmax(0, 27rem); gap: 2rem } .try { position: sticky; top: 1rem; align-self: start } }
@media (max-width: 800px) { .page { display: block } .side { position: static; height: auto; padding: .75rem 1rem; border-right: 0; border-bottom: 1px solid var(--line) }
  .side summary { display: block; font-weight: 600 } .content { padding: 1.25rem 1rem 4rem } article { padding: 1rem } .side a { padding: .35rem .5rem } }
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
const choose = (language) => {
  document.body.dataset.shown = language
  document.querySelectorAll("[data-language]").forEach((button) => button.setAttribute("aria-pressed", button.dataset.language === language))
}
const kept = () => { try { return localStorage.getItem("docs.language") } catch {} }
choose(["typescript", "python"].find((language) => language === kept()) ?? "curl")
const reveal = () => {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)))
  if (target instanceof HTMLDetailsElement) target.open = true
  document.querySelectorAll(".side [aria-current]").forEach((link) => link.removeAttribute("aria-current"))
  document.querySelector('.side a[href="' + CSS.escape(location.hash) + '"]')?.setAttribute("aria-current", "true")
}
addEventListener("hashchange", reveal)
reveal()
const menu = document.querySelector(".side details")
if (matchMedia("(max-width: 800px)").matches) menu.open = false
menu.addEventListener("click", ({ target }) => { if (target.closest("a") && matchMedia("(max-width: 800px)").matches) menu.open = false })
document.getElementById("filter").addEventListener("input", ({ target: { value } }) => {
  const words = value.toLowerCase().split(/\\s+/)
  const fits = (text) => words.every((word) => text.toLowerCase().includes(word))
  document.querySelectorAll(".side li li").forEach((item) => item.hidden = !fits(item.textContent + " " + item.firstChild.title))
  document.querySelectorAll(".side > details > ul > li:has(ul)").forEach((group) => group.hidden = !group.querySelector("li:not([hidden])"))
})
document.addEventListener("click", ({ target }) => {
  if (target.dataset.language) {
    const { top } = target.getBoundingClientRect()
    choose(target.dataset.language)
    // Other examples have another height: the button stays under the mouse.
    scrollBy(0, target.getBoundingClientRect().top - top)
    try { localStorage.setItem("docs.language", target.dataset.language) } catch {}
    return
  }
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
export const render = (document: Node, address: string, hasClients: boolean): string => {
  const reasons = reasonsOf([...operationsOf(document.paths), ...operationsOf(document.webhooks)], document)
  const context = { document, reasons, hasClients }
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${escape(document.info.title)}</title>
<link rel="icon" href="data:,">
<style>${styles}</style>
</head>
<body data-shown="curl">
<div class="page">
<nav class="side" aria-label="Operations">
<details open><summary>Contents</summary>
<label>Filter<input id="filter" type="search" autocomplete="off" spellcheck="false"></label>
<ul>${navigation(document)}</ul>
</details>
</nav>
<main class="content">
<h1>${escape(document.info.title)} ${escape(document.info.version)}</h1>
<p>${prose(document.info.description)}</p>
<p><a href="${address}">OpenAPI document</a></p>
${sections(context)}
${calls(context)}
${errorSection(reasons)}
${schemas(document)}
</main>
</div>
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
}
