/** The types of the Python client, made from the OpenAPI document of clients. `npm run docs` writes them. */
import { mediaTypes } from "../../src/domain/MediaTypes.ts"
import { answers, bodies, nameOf, type Node, operations, pascal, schemas as described } from "./clientTypes.ts"

const schemas: Node = {
  ...described,
  ScheduledTask: { ...described["ScheduledTask"], anyOf: [{ $ref: "CreateTask" }] },
  // Checkers do not take a TypedDict for another one whose fields have wider types.
  InputItem: { ...described["InputItem"], anyOf: [...described["InputItem"].oneOf, { $ref: "UploadedFile" }] },
  ClientToolDefinition: {
    ...described["ClientToolDefinition"],
    anyOf: [{ $ref: "ClientTool" }, { $ref: "JsonObject" }]
  }
}

const keywords = new Set(
  `False None True and as assert async await break class continue def del elif else except finally for from global if import in is
  lambda nonlocal not or pass raise return try while with yield`.split(/\s+/)
)

/** Whether a class may have a field of the name. */
const isName = (name: string) => /^[A-Za-z_]\w*$/.test(name) && !keywords.has(name)

const docstring = (text: string | undefined, indent: string): ReadonlyArray<string> => {
  if (text === undefined) return []
  const lines = [""]
  const escaped = text.replaceAll("\\", "\\\\").replaceAll(/"(?=""|$)/g, `\\"`)
  for (const word of escaped.replaceAll(/\bnull\b/gi, "None").split(/\s+/)) {
    const line = `${lines.at(-1)} ${word}`.trim()
    if (line.length > 108) lines.push(word)
    else lines[lines.length - 1] = line
  }
  if (lines.length === 1) return [`${indent}"""${lines[0]}"""`]
  return [`${indent}"""`, ...lines.map((line) => indent + line), `${indent}"""`]
}

/** Definitions by their names, each after those that it needs. */
const definitions = new Map<string, ReadonlyArray<string>>()

/** The type of some JSON values. Python has no literal type of a number with a fraction. */
export const literalOf = (values: ReadonlyArray<unknown>): string => {
  if (values.some((value) => typeof value === "number" && !Number.isSafeInteger(value))) return "float"
  const named = new Map<unknown, string>([[true, "True"], [false, "False"], [null, "None"]])
  return `Literal[${values.map((value) => named.get(value) ?? JSON.stringify(value)).join(", ")}]`
}

/** The annotation of a schema. An object without a name of its own gets that of its place. */
const typeOf = (schema: Node, place: string, list = "List"): string => {
  const { $ref, additionalProperties, anyOf, enum: values, items, properties, type } = schema
  if ($ref !== undefined) return define(nameOf($ref))
  if (values !== undefined) return literalOf(values)
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
  const empty = head.length === 0 && body.length === 0 ? ["    pass"] : []
  return [`class ${name}(${base}):`, ...head, ...(head.length === 0 ? [] : [""]), ...body, ...empty]
}

/** An annotation as a text, which may be of a type that is defined later. */
const quoted = (type: string) => /['\\]/.test(type) ? JSON.stringify(type) : `"${type.replaceAll("\"", "'")}"`

/** Keys such as `from` are no names of Python. */
const callOf = (name: string, fields: ReadonlyArray<Field>, isTotal: boolean) => [
  `${name} = TypedDict(`,
  `    "${name}",`,
  "    {",
  ...fields.map(({ name, type }) => `        ${JSON.stringify(name)}: ${/^\w+$/.test(type) ? type : quoted(type)},`),
  "    },",
  ...(isTotal ? [] : ["    total=False,"]),
  ")"
]

export const typedDict = (name: string, { description, properties, required = [] }: Node): ReadonlyArray<string> => {
  const list = bodies.includes(name) ? "Sequence" : "List"
  const fields = Object.entries<Node>(properties).map(([key, schema]): Field => ({
    name: key,
    type: typeOf(schema, name + pascal(key), list),
    description: schema["enum"]?.length === 1 ? undefined : schema["description"]
  }))
  const [needed = [], optional = []] = [true, false].map((isNeeded) =>
    fields.filter((field) => required.includes(field.name) === isNeeded)
  )
  const isClass = (some: ReadonlyArray<Field>) => some.every((field) => isName(field.name))
  if (optional.length === 0 || needed.length === 0) {
    return isClass(fields)
      ? classOf(name, needed.length === 0 ? "TypedDict, total=False" : "TypedDict", fields, description)
      : [...callOf(name, fields, needed.length > 0), ...docstring(description, "")]
  }
  const base = `_${name}`
  const whole = (bases: string, own: ReadonlyArray<Field>) => ["", "", ...classOf(name, bases, own, description)]
  const first = isClass(needed) ? classOf(base, "TypedDict", needed) : callOf(base, needed, true)
  if (isClass(optional)) return [...first, ...whole(`${base}, total=False`, optional)]
  if (isClass(needed)) return [...callOf(base, optional, false), ...whole(base, needed)]
  const other = `_Optional${name}`
  return [...first, "", "", ...callOf(other, optional, false), ...whole(`${base}, ${other}`, [])]
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

for (const name of [...bodies, ...answers]) define(name)

/** The values of `include`, by operation. */
for (const { id, parameters } of operations) {
  const include = parameters.find(({ name }) => name === "include")
  if (include === undefined) continue
  const name = `${pascal(id)}Include`
  definitions.set(name, [
    `${name} = ${literalOf(include["schema"].items.enum)}`,
    ...docstring(`What \`include\` of \`${id}\` adds.`, "")
  ])
}

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
