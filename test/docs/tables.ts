/** Generated parts of the Markdown pages, by page and by the name of their markers. */
import { isTerminal, statusAfter, targetOf, TaskEvent, type TaskEventTag, TaskStatus } from "../../src/domain/Task.ts"
import { type ErrorCodes, errorCodes } from "../../src/http/contract/ErrorCodes.ts"
import { InternalRpc } from "../../src/http/contract/rpc/Rpc.ts"
import { all } from "../../src/runtime/config/settings.ts"
import { extensions } from "../../src/runtime/loadedExtensions.ts"
import * as Growth from "../simulation/growth.ts"
import { document, nameOf, type Node, schemas } from "./clientTypes.ts"
import { list } from "./markdown.ts"

const tags = Object.keys(TaskEvent.cases) as ReadonlyArray<TaskEventTag>

const leads = (from: TaskStatus, tag: TaskEventTag) => statusAfter(from, tag) !== undefined

/** One arrow for each pair of statuses, labeled with every event that leads from the one to the other. */
const arrows = TaskStatus.literals.flatMap((from) =>
  [...Map.groupBy(tags.filter((tag) => leads(from, tag)), targetOf)]
    .map(([to, events]) => `  ${from} --> ${to}: ${events.join("<br>")}`)
)

const states = [
  "```mermaid",
  "stateDiagram-v2",
  "  [*] --> pending: created",
  ...arrows,
  ...TaskStatus.literals.filter(isTerminal).map((status) => `  ${status} --> [*]`),
  "```"
].join("\n")

const code = (names: ReadonlyArray<string>) => names.map((name) => `\`${name}\``).join(", ")

/** The codes of errors by status. */
const codes = list(
  [...Map.groupBy(
    Object.entries(Object.assign({}, errorCodes, ...extensions.map(({ routes }) => routes.errorCodes)) as ErrorCodes),
    ([, [status]]) => status
  )]
    .toSorted(([one], [other]) => one - other)
    .map(([status, entries]) =>
      `${status}: ${entries.map(([name, [, meaning]]) => `\`${name}\`: ${meaning}`).join(" ")}`
    )
)

/** What each process of a deployment cannot do without, by the process. */
const required = list(
  (["service", "core", "backend"] as const).map((part) => {
    const names = all.filter(({ requiredBy }) => requiredBy?.includes(part) === true).map(({ name }) => name)
    return `${part === "service" ? "each node" : `a ${part} served alone`}: ${code(names)}`
  })
)

/** The fields of an object of the document of clients: a list of their names and meanings. `required` marks those that a request needs. */
const fieldsOf = (name: string, required = false) => {
  const { properties, required: needed = [] } = schemas[name] ?? { properties: {} }
  return list(
    Object.entries<Node>(properties).map(([field, schema]) => {
      const mark = required && needed.includes(field) ? " (required)" : ""
      return `\`${field}\`${mark}: ${schema["description"] ?? schemas[nameOf(schema["$ref"] ?? "")]?.description ?? ""}`
    })
  )
}

/** A body in words: its few fields, or the name of its schema. */
const shapeOf = (content: Node) => {
  const [type = "", { schema } = {} as Node] = Object.entries<Node>(content)[0] ?? []
  const name = nameOf(schema?.["$ref"] ?? "")
  if (name === "") return type === "" || type === "application/json" ? "" : ` \`${type}\``
  const fields = Object.keys(schemas[name]?.properties ?? {})
  return fields.length < 4 ? ` \`{${fields.join(", ")}}\`` : ` \`${name}\``
}

/** The operations of a group of the document of clients, in its order. */
const operationsOf = (group: string) =>
  list(
    Object.entries<Node>(document["paths"]).flatMap(([path, methods]) =>
      Object.entries<Node>(methods).filter(([, { tags }]) => tags.includes(group)).map(
        ([method, { parameters, responses, summary }]) => {
          const query = (parameters as ReadonlyArray<Node>).filter((parameter) => parameter["in"] === "query")
            .map(({ name, style }) => style === "deepObject" ? `${name}[key]` : name).join("&")
          const results = Object.entries<Node>(responses).filter(([status]) => Number(status) < 400)
            .map(([status, { content = {} }]) => `${status}${shapeOf(content)}`).join(" or ")
          return `\`${method.toUpperCase()} ${path}${query === "" ? "" : `?${query}`}\`: ${summary}. ${results}`
        }
      )
    )
  )

/** The calls of other services, by their groups. */
const calls = list(
  [...Map.groupBy(
    [InternalRpc, ...extensions.flatMap(({ routes: { rpc } }) => rpc ?? [])].flatMap((
      { requests }
    ) => [...requests.keys()]),
    (tag) => tag.split(".")[0] ?? ""
  )].map(([group, tags]) => `\`${group}\`: ${code(tags.map((tag) => tag.slice(group.length + 1)))}`)
)

export const pages: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  "src/domain/README.md": { states },
  "src/http/README.md": {
    calls,
    codes,
    create: fieldsOf("CreateTask", true),
    operations: operationsOf("tasks"),
    task: fieldsOf("Task")
  },
  "src/http/schedules/README.md": { fields: fieldsOf("CreateSchedule", true), operations: operationsOf("schedules") },
  "src/http/usage/README.md": { bucket: fieldsOf("UsageBucket") },
  "src/runtime/README.md": {
    settings: list(all.map((s) => `${code([s.name])} (${s.default}): ${s.meaning}`))
  },
  "src/runtime/deployment/Growth.md": Growth.tables,
  "src/runtime/deployment/Production.md": { required }
}
