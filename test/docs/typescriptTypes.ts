/** The types of the Promise client, made from the OpenAPI document of clients. `npm run docs` writes them. */
import { answers, bodies, nameOf, type Node, operations, pascal, schemas as described } from "./clientTypes.ts"

/** The usual shape of a turn is written by hand, in a module that the domain uses too. */
const ofTurns = new Set(["JsonObject", "Turn", "OutputItem", "TextOutput", "ImageOutput", "FileOutput", "OutputFile"])

/** Names of the client that differ from those of the document. */
const renamed: Readonly<Record<string, string>> = { PendingToolCall: "ToolCall" }

const schemas: Node = {
  ...described,
  ScheduledTask: { $ref: "CreateTask" },
  // A message, or a whole turn: both are JSON objects.
  ConversationItem: { $ref: "JsonObject" },
  // Forms of other protocols have no type of their own.
  ClientToolDefinition: { anyOf: [{ $ref: "ClientTool" }, { $ref: "JsonObject" }] }
}

/** Types that users pass on as JSON: an interface has no index signature. */
const aliases = new Set(["UploadedFile"])

/** Types that are not exported, because they are another one. */
const inlined = new Set(["ScheduledTask", "ConversationItem", "ClientToolDefinition", "Timestamp"])

const comment = (text: string | undefined, indent: string): string => {
  if (text === undefined) return ""
  const lines = [""]
  for (const word of text.split(/\s+/)) {
    const line = `${lines.at(-1)} ${word}`.trim()
    if (line.length > 116 - indent.length) lines.push(word)
    else lines[lines.length - 1] = line
  }
  const one = `${indent}/** ${lines[0]} */\n`
  return lines.length === 1 && one.length <= 121
    ? one
    : `${indent}/**\n${lines.map((line) => `${indent} * ${line}\n`).join("")}${indent} */\n`
}

const union = (members: ReadonlyArray<string>) => [...new Set(members)].join(" | ")

const listOf = (item: string) => `ReadonlyArray<${item}>`

/** Writes types of a document. Those in `others` are in other modules. */
export const makeTypes = (schemas: Node, renamed: Readonly<Record<string, string>>, others: ReadonlySet<string>) => {
  /** Names of `others` that the types need. */
  const used = new Set<string>()
  /** Definitions by their names, in the order in which they are needed. */
  const definitions = new Map<string, string>()

  /** `isGiven`: a value that users write. */
  const typeOf = (schema: Node, indent: string, isGiven: boolean): string => {
    const { $ref, additionalProperties, anyOf, enum: values, items, oneOf, properties, type } = schema
    if ($ref !== undefined) return reference(nameOf($ref), indent, isGiven)
    if (values !== undefined) return union(values.map((value: unknown) => JSON.stringify(value)))
    const members = anyOf ?? oneOf
    if (members !== undefined) {
      const known = members.filter((member: Node) => nameOf(member["$ref"] ?? "") !== "UnknownOutput")
      return union(known.map((member: Node) => typeOf(member, indent, isGiven)))
    }
    if (Array.isArray(type)) return union(type.map((each: string) => typeOf({ type: each }, indent, isGiven)))
    if (type === "array") return listOf(typeOf(items, indent, isGiven))
    if (properties !== undefined) return fieldsOf(schema, indent, isGiven)
    if (type === "object") {
      if (additionalProperties?.type === "string") return "Metadata"
      const isOfLists = additionalProperties?.type === "array"
      return isOfLists ? `Readonly<Record<string, ${typeOf(additionalProperties, indent, isGiven)}>>` : "JsonObject"
    }
    return { string: "string", integer: "number", number: "number", boolean: "boolean", null: "null" }[String(type)]
      ?? "Json"
  }

  const reference = (name: string, indent: string, isGiven: boolean): string => {
    const known = renamed[name] ?? name
    if (others.has(name)) {
      used.add(known)
      return known
    }
    if (inlined.has(name)) return typeOf(schemas[name], indent, isGiven)
    define(name, isGiven)
    return known
  }

  const fieldsOf = ({ properties, required = [] }: Node, indent: string, isGiven: boolean): string => {
    const inner = `${indent}  `
    const fields = Object.entries<Node>(properties).map(([name, schema]) => {
      // A JSON Schema is any object, whether or not its type has an index signature.
      const isSchema = name === "parameters" || name === "output_schema"
      const text = isSchema
        ? typeOf(schema, inner, isGiven).replace("JsonObject", "object")
        : typeOf(schema, inner, isGiven)
      const isOptional = !required.includes(name)
      const about = schema["enum"]?.length === 1 ? undefined : schema["description"]
      return `${comment(about, inner)}${inner}readonly ${name}${isOptional ? "?" : ""}: ${text}${
        isOptional && isGiven ? " | undefined" : ""
      }\n`
    })
    return `{\n${fields.join("")}${indent}}`
  }

  /** What users write and what they read are the same where both have it: then the first use decides. */
  const define = (name: string, isGiven: boolean) => {
    if (definitions.has(name)) return
    definitions.set(name, "")
    const schema = schemas[name]
    const known = renamed[name] ?? name
    const about = comment(schema.description, "")
    const text = schema.properties === undefined || aliases.has(name)
      ? `${about}export type ${known} = ${typeOf(schema, "", isGiven)}\n`
      : `${about}export interface ${known} ${fieldsOf(schema, "", isGiven)}\n`
    definitions.delete(name)
    definitions.set(name, text)
  }
  return { define, definitions, typeOf, used }
}

const { definitions, typeOf } = makeTypes(schemas, renamed, ofTurns)

for (const $ref of bodies) typeOf({ $ref }, "", true)
for (const $ref of answers) typeOf({ $ref }, "", false)

/** A list of values is sent with commas, and one value needs no list. */
const parameterOf = ({ description, name, schema }: Node) => {
  const type = schema.type === "array"
    ? union([typeOf(schema.items, "  ", true), listOf(typeOf(schema.items, "  ", true))])
    : typeOf(schema, "  ", true)
  return `${comment(description, "  ")}  readonly ${name}?: ${type} | undefined\n`
}

const queries = operations.flatMap(({ id, method, parameters }) => {
  const inQuery = parameters.filter((parameter) => parameter["in"] === "query")
  return method !== "GET" || inQuery.length === 0
    ? []
    : [
      `/** The parameters of \`${id}\`. */\nexport interface ${pascal(id)}Query {\n${
        inQuery.map(parameterOf).join("")
      }}\n`
    ]
})

/** The module `Types` of the Promise client. */
export const types = `/**
 * Requests and responses, as they are in JSON. Made from the service's description by \`npm run docs\`: do not edit.
 *
 * Timestamps are ISO 8601 in UTC with six fractional digits. In requests null means the same as absent. Responses may gain fields at any
 * time.
 */

import type { Json, JsonObject, Turn } from "../../../domain/Turn.ts"

export type * from "../../../domain/Turn.ts"

/** Labels of a task: texts by their keys. */
export type Metadata = Readonly<Record<string, string>>

${[...definitions.values(), ...queries].join("\n")}`

/** Where it is, in this repository. */
export const typesFile = "src/http/client/promise/Types.ts"
