/**
 * Calls of the clients for the operations of the OpenAPI document. They follow from the operation's name and its example: the clients
 * name their methods alike, which a test compares.
 */

type Json = unknown

export interface DocumentedCall {
  readonly operationId: string
  /** The group of methods. */
  readonly tag: string
  readonly path: string
  /** The example of the body; undefined without one. */
  readonly body: Json
  readonly isUpload: boolean
}

const setUp = {
  typescript: (call: string) =>
    `import { TaskServiceClient } from "async-task-service-client"

const client = new TaskServiceClient({ baseUrl, token })
${call}`,
  python: (call: string) =>
    `from async_task_service_client import TaskServiceClient

client = TaskServiceClient(base_url, token)
${call}`
}

/** Methods whose name does not follow from that of the operation. */
const irregular: Readonly<Record<string, string>> = { getStorageBase: "url", redeliverWebhook: "redeliver" }

/** `getTaskEvents` of `tasks` is `events`, and `createTask` is `create`. */
export const methodOf = ({ operationId, tag }: Pick<DocumentedCall, "operationId" | "tag">): string => {
  const one = tag.replace(/s$/, "")
  const [first = ""] = one
  const group = new RegExp(`${first.toUpperCase()}${one.slice(1)}s?`)
  const short = irregular[operationId] ?? operationId.replace(group, "")
  return short.replace(/^(?:get|list)([A-Z])/, (_, letter: string) => letter.toLowerCase())
}

const snake = (name: string) => name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)

const isFields = (value: Json): value is Readonly<Record<string, Json>> =>
  typeof value === "object" && value !== null && !Array.isArray(value)

const isName = (text: string) => /^[A-Za-z_]\w*$/.test(text)

/** A literal of either language, which differ in three words and in the names of fields. */
const literal = (language: keyof typeof setUp, value: Json, indent = ""): string => {
  const words = language === "python" ? { true: "True", false: "False", null: "None" } : {}
  const inner = `${indent}  `
  const lines = Array.isArray(value)
    ? value.map((item) => literal(language, item, inner))
    : isFields(value)
    ? Object.entries(value).map(([name, item]) =>
      `${language === "typescript" && isName(name) ? name : JSON.stringify(name)}: ${literal(language, item, inner)}`
    )
    : undefined
  if (lines === undefined) return words[String(value) as keyof typeof words] ?? JSON.stringify(value)
  const [open, close] = Array.isArray(value) ? ["[", "]"] : ["{", "}"]
  const pad = language === "typescript" && !Array.isArray(value) && lines.length > 0 ? " " : ""
  const short = `${open}${pad}${lines.join(", ")}${pad}${close}`
  return short.length + indent.length < 80 && !short.includes("\n")
    ? short
    : `${open}\n${lines.map((line) => inner + line).join(",\n")}\n${indent}${close}`
}

/** Methods that take the fields of the body one by one. */
const spread: Readonly<Record<keyof typeof setUp, ReadonlyArray<string>>> = {
  typescript: ["pause"],
  python: ["cancel", "pause", "preview", "redeliver", "stop"]
}

const argumentsOf = (language: keyof typeof setUp, call: DocumentedCall): ReadonlyArray<string> => {
  if (call.isUpload) {
    return [
      language === "python" ? "\"notes.txt\"" : "new Blob([\"Some notes\"])",
      ...language === "python" ? [] : ["{ name: \"notes.txt\" }"]
    ]
  }
  const method = methodOf(call)
  if (method === "url") return ["file"]
  const ids = [...call.path.matchAll(/\{(\w+)\}/g)].map(([, name = ""]) => name)
  if (call.body === undefined) return ids
  if (method === "submitToolResults" && isFields(call.body)) return [...ids, literal(language, call.body["results"])]
  if (!spread[language].includes(method) || !isFields(call.body)) return [...ids, literal(language, call.body)]
  const values = Object.entries(call.body).map(([name, value]) =>
    language === "python" ? `${name}=${literal(language, value)}` : literal(language, value)
  )
  return [...ids, ...values]
}

export const typescript = (call: DocumentedCall): string => {
  const method = methodOf(call)
  const expression = `client.${call.tag}.${method}(${argumentsOf("typescript", call).join(", ")})`
  return setUp.typescript(
    method === "events"
      ? `for await (const event of ${expression}) console.log(event.status)`
      : call.operationId.startsWith("delete")
      ? `await ${expression}`
      : `console.log(await ${expression})`
  )
}

export const python = (call: DocumentedCall): string => {
  const method = snake(methodOf(call))
  const expression = `client.${call.tag}.${method}(${argumentsOf("python", call).join(", ")})`
  return setUp.python(
    method === "events"
      ? `for event in ${expression}:\n    print(event["status"])`
      : call.operationId.startsWith("delete")
      ? expression
      : `print(${expression})`
  )
}
