/** The types of the Python client, made from the OpenAPI document of clients. `npm run docs` writes them. */
import { OpenApi } from "effect/http-api"
import { mediaTypes } from "../../src/domain/MediaTypes.ts"
import { PublicApi } from "../../src/http/contract/Api.ts"
import { modules } from "../../src/runtime/extensions.ts"

// oxlint-disable-next-line typescript/no-explicit-any -- a schema of any shape
type Node = Record<string, any>

const extensions = await Promise.all(modules.map(({ testing }) => testing?.()))
const [group, ...groups] = extensions.flatMap((found) => found?.extension.routes.publicGroup ?? [])
const document = group === undefined ? OpenApi.fromApi(PublicApi) : OpenApi.fromApi(PublicApi.add(group, ...groups))
const described: Node = document.components.schemas

const schemas: Node = {
  ...described,
  // A client merges the name of the event with its data.
  TaskEvent: {
    ...described["TaskEvent"],
    description: "A change of a task, or its progress.",
    required: [...described["TaskEvent"].required, "event"],
    properties: {
      ...described["TaskEvent"].properties,
      event: {
        enum: [...described["TaskStatus"].enum, "progress"],
        description: "The new status, or `progress`, which does not change it."
      }
    }
  },
  ScheduledTask: { ...described["ScheduledTask"], anyOf: [{ $ref: "CreateTask" }] },
  // Checkers do not take a TypedDict for another one whose fields have wider types.
  InputItem: { ...described["InputItem"], anyOf: [...described["InputItem"].oneOf, { $ref: "UploadedFile" }] },
  ClientToolDefinition: {
    ...described["ClientToolDefinition"],
    anyOf: [{ $ref: "ClientTool" }, { $ref: "JsonObject" }]
  }
}

/** What users write: their lists may be of any kind. */
const bodies = ["CreateTask", "RerunTask", "CreateSchedule", "UpdateSchedule", "ToolResult"]

const roots = [
  ...bodies,
  "Task",
  "TaskSummary",
  "TaskEvent",
  "PageMeta",
  "CreatedTask",
  "ResumedTask",
  "CanceledTask",
  "CanceledTasks",
  "Delivery",
  "UploadedFile",
  "Schedule",
  "ScheduleRun",
  "Usage"
]

const keywords = /^(from|for|is|in|class|import|global|pass|return|with|not|and|or)$/

const docstring = (text: string | undefined, indent: string): ReadonlyArray<string> => {
  if (text === undefined) return []
  const lines = [""]
  for (const word of text.replaceAll("\\", "\\\\").replaceAll(/\bnull\b/gi, "None").split(/\s+/)) {
    const line = `${lines.at(-1)} ${word}`.trim()
    if (line.length > 108) lines.push(word)
    else lines[lines.length - 1] = line
  }
  if (lines.length === 1) return [`${indent}"""${lines[0]}"""`]
  return [`${indent}"""`, ...lines.map((line) => indent + line), `${indent}"""`]
}

/** Definitions by their names, each after those that it needs. */
const definitions = new Map<string, ReadonlyArray<string>>()

const pascal = (name: string) => name.replaceAll(/(?:^|_)(\w)/g, (_, letter) => letter.toUpperCase())

const nameOf = ($ref: string) => $ref.split("/").at(-1) ?? ""

/** The annotation of a schema. An object without a name of its own gets that of its place. */
const typeOf = (schema: Node, place: string, list = "List"): string => {
  const { $ref, additionalProperties, anyOf, enum: values, items, properties, type } = schema
  if ($ref !== undefined) return define(nameOf($ref))
  if (values !== undefined) return `Literal[${values.map((value: unknown) => JSON.stringify(value)).join(", ")}]`
  // A union without the type of all others can be told apart by `type`.
  if (anyOf !== undefined) {
    const known = anyOf.filter((member: Node) => nameOf(member["$ref"] ?? "") !== "UnknownOutput")
    return union(known.map((member: Node) => typeOf(member, place, list)))
  }
  if (Array.isArray(type)) return union(type.map((type: string) => typeOf({ type }, place)))
  if (type === "array") return `${list}[${typeOf(items, place)}]`
  if (properties !== undefined) return define(place, schema)
  if (type === "object") return `Dict[str, ${additionalProperties?.type === "string" ? "str" : "Any"}]`
  return { string: "str", integer: "int", number: "float", boolean: "bool", null: "None" }[String(type)] ?? "Any"
}

const union = (members: ReadonlyArray<string>): string => {
  const others = members.filter((member) => member !== "None")
  const type = others.length === 1 ? others[0] ?? "" : `Union[${others.join(", ")}]`
  return others.length < members.length ? `Optional[${type}]` : type
}

interface Field {
  readonly name: string
  readonly type: string
  readonly description: string | undefined
}

const classOf = (name: string, base: string, fields: ReadonlyArray<Field>, description?: string) => {
  const body = fields.flatMap(({ description, name, type }) => [
    `    ${name}: ${type}`,
    ...docstring(description, "    ")
  ])
  const head = docstring(description, "    ")
  return [`class ${name}(${base}):`, ...head, ...(head.length === 0 ? [] : [""]), ...body]
}

/** Names such as `from` are no names of Python, but keys of a dictionary. */
const callOf = (name: string, fields: ReadonlyArray<Field>, isTotal: boolean) => [
  `${name} = TypedDict(`,
  `    "${name}",`,
  "    {",
  ...fields.map(({ name, type }) =>
    `        "${name}": ${/^(\w+)$/.test(type) ? type : `"${type.replaceAll("\"", "'")}"`},`
  ),
  "    },",
  ...(isTotal ? [] : ["    total=False,"]),
  ")"
]

const typedDict = (name: string, { description, properties, required = [] }: Node): ReadonlyArray<string> => {
  const list = bodies.includes(name) ? "Sequence" : "List"
  const fields = Object.entries<Node>(properties).map(([key, schema]): Field => ({
    name: key,
    type: typeOf(schema, name + pascal(key), list),
    description: schema["enum"]?.length === 1 ? undefined : schema["description"]
  }))
  const [needed = [], optional = []] = [true, false].map((isNeeded) =>
    fields.filter((field) => required.includes(field.name) === isNeeded)
  )
  const isCall = fields.some((field) => keywords.test(field.name))
  const base = optional.length === 0 || needed.length === 0 ? name : `_${name}`
  const first = isCall
    ? callOf(base, needed.length === 0 ? optional : needed, needed.length > 0)
    : base === name
    ? classOf(name, needed.length === 0 ? "TypedDict, total=False" : "TypedDict", fields, description)
    : classOf(base, "TypedDict", needed)
  if (base === name) return isCall ? [...first, ...docstring(description, "")] : first
  return [...first, "", "", ...classOf(name, `${base}, total=False`, optional, description)]
}

/** Returns the name. */
const define = (name: string, schema: Node = schemas[name] ?? {}): string => {
  if (name === "JsonObject" || definitions.has(name)) return name
  const lines = schema["properties"] === undefined
    ? [`${name} = ${typeOf(schema, name)}`, ...docstring(schema["description"], "")]
    : typedDict(name, schema)
  definitions.set(name, lines)
  return name
}

roots.forEach((name) => define(name))

const names = ["JsonObject", ...definitions.keys()].toSorted()

/** The module `types` of the Python client. */
export const types = `"""Requests and responses, as they are in JSON. Made from the service's description: do not edit.

Timestamps are ISO 8601 in UTC with six fractional digits. In requests \`\`None\`\` means the same as absent.
Responses may gain fields at any time.
"""

from typing import Any, Dict, List, Literal, Optional, Sequence, TypedDict, Union

__all__ = [
${names.map((name) => `    "${name}",`).join("\n")}
]

JsonObject = Dict[str, Any]
"""Any JSON object."""


${[...definitions.values()].map((lines) => lines.join("\n")).join("\n\n\n")}


MEDIA_TYPES = {
${Object.entries(mediaTypes).map(([extension, type]) => `    "${extension}": "${type}",`).join("\n")}
}
"""The media types of the accepted file formats, by extension."""
`

/** Where it is, in this repository. */
export const typesFile = "src/http/client/python/async_task_service_client/types.py"
