/**
 * The OpenAPI document as a page: plain HTML with navigation, a filter, examples in three languages, and a form that sends requests. It
 * loads nothing from other origins.
 */
import * as DocsExamples from "./DocsExamples.ts"
import { script, styles } from "./DocsPageAssets.ts"

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
