/** Generated parts of the Markdown pages, by page and by the name of their markers. */
import { isTerminal, statusAfter, targetOf, TaskEvent, type TaskEventTag, TaskStatus } from "../../src/domain/Task.ts"
import { type ErrorCodes, errorCodes } from "../../src/http/contract/ErrorCodes.ts"
import { all } from "../../src/runtime/config/settings.ts"
import { extensions } from "../../src/runtime/loadedExtensions.ts"
import * as Growth from "../simulation/growth.ts"
import { nameOf, type Node, schemas } from "./clientTypes.ts"
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

export const pages: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  "README.md": { states },
  "src/http/README.md": { codes, create: fieldsOf("CreateTask", true), task: fieldsOf("Task") },
  "src/http/schedules/README.md": { fields: fieldsOf("CreateSchedule", true) },
  "src/http/usage/README.md": { bucket: fieldsOf("UsageBucket") },
  "src/runtime/README.md": {
    settings: list(all.map((s) => `${code([s.name])} (${s.default}): ${s.meaning}`))
  },
  "src/runtime/deployment/Growth.md": Growth.tables,
  "src/runtime/deployment/Production.md": { required }
}
