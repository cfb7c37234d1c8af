/**
 * Completes the OpenAPI document that is generated from the schemas: adds headers, examples, the forms of opaque JSON and
 * webhooks, and removes whatever would make a generated client refuse a field that is added later.
 */
import { extensions } from "../../domain/FileFormat.ts"
import * as Limits from "../../domain/Limits.ts"
import { TaskStatus } from "../../domain/Task.ts"
import { errorExamples, examples, webhookExample } from "./Examples.ts"
import { describeResponse } from "./ResponseDescriptions.ts"

// oxlint-disable-next-line typescript/no-explicit-any -- a document of any shape, as OpenApi.Transform takes it
type Node = Record<string, any>

const isNode = (value: unknown): value is Node => typeof value === "object" && value !== null && !Array.isArray(value)

const schemaRef = (name: string) => ({ $ref: `#/components/schemas/${name}` })

/** A union without repeated members; `{}` (any value) if one member is `{}`. */
const anyOf = (schemas: ReadonlyArray<unknown>): Node =>
  schemas.some((schema) => isNode(schema) && Object.keys(schema).length === 0)
    ? {}
    : { anyOf: [...new Map(schemas.map((schema) => [JSON.stringify(schema), schema])).values()] }

/** The generated names of error schemas end with `Encoded`. */
const publicName = (name: string) => name.replace(/Encoded$/, "")

/** Objects stay open because fields may be added. The bounds of safe integers carry no information. */
const isNoise = (key: string, value: unknown) =>
  (key === "additionalProperties" && value === false) || key === "x-effect-stream" ||
  (key === "minimum" && value === Number.MIN_SAFE_INTEGER) || (key === "maximum" && value === Number.MAX_SAFE_INTEGER)

const clean = (value: unknown): unknown => {
  if (Array.isArray(value)) return value.map(clean)
  return isNode(value) ? cleanNode(value) : value
}

const cleanNode = (node: Node): Node => {
  const entries = Object.entries(node).filter(([key, inner]) => !isNoise(key, inner))
  return Object.assign(
    {},
    ...entries.map(([key, inner]) => {
      if (key === "$ref") return { $ref: publicName(String(inner)) }
      const cleaned = clean(inner)
      return key === "anyOf" && Array.isArray(cleaned) ? anyOf(cleaned) : { [key]: cleaned }
    })
  )
}

/** Describes fields that have only one possible value. */
const describeLiterals = (value: unknown): void => {
  if (Array.isArray(value)) return value.forEach(describeLiterals)
  if (!isNode(value)) return
  if (Array.isArray(value["enum"]) && value["enum"].length === 1) {
    value["description"] ??= `Always \`${value["enum"][0]}\`.`
  }
  Object.values(value).forEach(describeLiterals)
}

/** Makes a union whose members differ in `type` a `oneOf` with a discriminator. */
const discriminate = (schemas: Node) => {
  for (const schema of Object.values(schemas)) {
    const refs: ReadonlyArray<unknown> = isNode(schema) && Array.isArray(schema["anyOf"])
      ? schema["anyOf"].map((member: Node) => member["$ref"])
      : []
    const members = refs.map((ref) => schemas[String(ref).split("/").at(-1) ?? ""])
    const types = members.map((member) => member?.["properties"]?.["type"]?.["enum"]?.[0])
    if (refs.length === 0 || types.includes(undefined)) continue
    schema["oneOf"] = schema["anyOf"]
    delete schema["anyOf"]
    schema["discriminator"] = {
      propertyName: "type",
      mapping: Object.fromEntries(types.map((type, index) => [type, refs[index]]))
    }
  }
}

const jsonObjects = { type: "array", items: schemaRef("JsonObject") }
const named = (description: string, properties: Node, required: ReadonlyArray<string>): Node => ({
  type: "object",
  description,
  properties,
  required
})
const toolName = { type: "string", pattern: "^[A-Za-z0-9_-]{1,64}$", description: "Unique within the request." }

/** Forms of the JSON that the gateway does not decode into schemas of its own: `turns`, `client_tools`, `turn`. */
const opaqueSchemas: Node = {
  JsonObject: { type: "object", description: "Any JSON object." },
  Turn: {
    type: "object",
    description: "The assistant's answer, unchanged from the processing core.",
    properties: {
      output: {
        ...jsonObjects,
        description: "Output for the user: items of type text, image or file, never inline bytes."
      },
      messages: { ...jsonObjects, description: "The model's messages in full." },
      metadata: {
        ...schemaRef("JsonObject"),
        description: "`model`, `finish_reason`, `usage`, `transcriptions` and more."
      },
      interrupt: { description: "Reason of an interrupted turn." }
    }
  },
  ConversationItem: {
    description: "A message, or the whole `turn` of an earlier task, whose messages are inserted.",
    anyOf: [
      named("A message.", {
        role: { type: "string", enum: ["user", "assistant", "system"], description: "Author of the message." },
        content: { anyOf: [{ type: "string" }, jsonObjects], description: "Text, or an array of parts." }
      }, ["role", "content"]),
      named("An earlier turn.", { messages: { ...jsonObjects, description: "Its messages." } }, ["messages"])
    ]
  },
  ClientToolDefinition: {
    description: "A client tool. The nested, MCP and Anthropic forms are accepted too and converted.",
    anyOf: [
      schemaRef("ClientTool"),
      named("OpenAI's nested form.", {
        type: { type: "string", enum: ["function"] },
        function: { ...schemaRef("JsonObject"), description: "`name`, `description`, `parameters`, `strict`." }
      }, ["type", "function"]),
      named("MCP's form.", { name: toolName, inputSchema: schemaRef("JsonObject") }, ["name", "inputSchema"]),
      named("Anthropic's form.", { name: toolName, input_schema: schemaRef("JsonObject") }, ["name", "input_schema"])
    ]
  },
  ClientTool: named("A function that the client runs for the model.", {
    type: { type: "string", enum: ["function"] },
    name: toolName,
    description: { type: ["string", "null"], description: "Tells the model when and how to call the tool." },
    parameters: { anyOf: [schemaRef("JsonObject"), { type: "null" }], description: "JSON Schema of its arguments." },
    strict: { type: ["boolean", "null"], description: "Whether arguments must match `parameters` exactly." }
  }, ["type", "name"])
}

const headers: Node = {
  "X-Request-Id": {
    description: "Identifier of the request in the service's logs: the client's own if it sent a usable one.",
    schema: { type: "string" }
  },
  "Retry-After": { description: "Seconds to wait before trying again.", schema: { type: "integer" } },
  "WWW-Authenticate": { description: "Always `Bearer`.", schema: { type: "string" } },
  "Idempotent-Replayed": {
    description: "`true` when the response repeats that of an earlier request with the same key.",
    schema: { type: "string", enum: ["true"] }
  },
  Location: { description: "Path of the new task.", schema: { type: "string" } },
  ETag: { description: "Identifies this version of the task.", schema: { type: "string" } }
}

const headersOf = (names: ReadonlyArray<string>) =>
  Object.fromEntries(names.map((name) => [name, { $ref: `#/components/headers/${name}` }]))

const integer = (minimum: number, maximum: number | undefined, fallback: number | undefined): Node => ({
  type: "integer",
  minimum,
  ...(maximum === undefined ? {} : { maximum }),
  ...(fallback === undefined ? {} : { default: fallback })
})
const query = (name: string, description: string, schema: Node, more: Node = {}): Node => ({
  name,
  in: "query",
  required: false,
  description,
  schema,
  ...more
})
const header = (name: string, description: string, schema: Node = { type: "string" }): Node => ({
  name,
  in: "header",
  required: false,
  description,
  schema
})

const statuses = { type: "array", items: { type: "string", enum: [...TaskStatus.literals] } }
const statusQuery = "Only tasks of these statuses. One value, several with commas, or repeated as `status[]`; "
  + "an unknown one is 422."

const idempotencyKey = header(
  "Idempotency-Key",
  "Identifies the request, so that a repeated request takes effect only once. Remembered for 24 hours per user.",
  { type: "string", minLength: 1, maxLength: Limits.idempotencyKeyLength, pattern: "^[!-~]+$" }
)

/** Parameters outside the path; they replace the generated ones. */
const parameters: Readonly<Record<string, ReadonlyArray<Node>>> = {
  "tasks.create": [idempotencyKey],
  "tasks.submitToolResults": [idempotencyKey],
  "tasks.cancel": [idempotencyKey],
  "tasks.list": [
    query("status", statusQuery, statuses, { style: "form", explode: false }),
    query("status[]", statusQuery, statuses, { style: "form", explode: true }),
    query("page", "Page number, from 1.", integer(1, undefined, 1)),
    query("per_page", "Page size.", integer(1, Limits.perPage.maximum, Limits.perPage.default))
  ],
  "tasks.get": [
    query(
      "wait",
      "Seconds to hold the response until the task is terminal or interrupted, or differs from the version in `If-None-Match`.",
      integer(1, Limits.waitSeconds, undefined)
    ),
    query("include", "`waiting_on` adds the party that has to act next.", { type: "string", enum: ["waiting_on"] }),
    header("If-None-Match", "The `ETag` of the client's version: 304 while it is current.")
  ],
  "tasks.events": [
    header("Last-Event-ID", "The id of the last event that the client received: later events are replayed.")
  ]
}

/** Headers of responses that have no body, and so no schema. */
const bodiless: Readonly<Record<string, Readonly<Record<string, ReadonlyArray<string>>>>> = {
  "tasks.get": { 304: ["X-Request-Id", "ETag"] },
  "tasks.events": { 204: ["X-Request-Id"] }
}

const headerNames = (id: string, status: string): ReadonlyArray<string> => {
  const names = ["X-Request-Id"]
  if (status === "401") names.push("WWW-Authenticate")
  if (status === "429" || status === "503") names.push("Retry-After")
  if (status === "201" && id === "tasks.create") names.push("Location")
  if (status === "200" && id === "tasks.get") names.push("ETag")
  if (status.startsWith("2") && parameters[id]?.includes(idempotencyKey)) names.push("Idempotent-Replayed")
  return names
}

const eventStream: Node = {
  type: "string",
  description: "Server-sent events, each with a TaskEvent as its `data`.",
  contentMediaType: "text/event-stream",
  contentSchema: { type: "array", items: schemaRef("TaskEvent") }
}

const fileRules =
  `Up to ${Limits.fileBytes / 1024} KB, in one of the formats ${extensions.join(", ")} by its extension `
  + "(also jpeg and htm), with a matching content type or none. Programs are refused under any name."

/** `examples` rather than `example`, because documentation pages show only the former for responses. */
const asExample = (value: unknown) => ({ example: { value } })

const finishOperation = (operation: Node) => {
  const id = String(operation["operationId"])
  const example = examples[id]
  const generated: ReadonlyArray<Node> = operation["parameters"]
  const inPath = generated.filter((parameter) => parameter["in"] === "path")
  for (const parameter of inPath) {
    parameter["description"] = parameter["name"] === "uuid" ? "Task identifier." : "Delivery identifier."
  }
  operation["parameters"] = [...inPath, ...parameters[id] ?? []]
  const form = operation["requestBody"]?.["content"]?.["multipart/form-data"]?.["schema"]
  if (form !== undefined) form["properties"]["file"]["description"] = fileRules
  const request = operation["requestBody"]?.["content"]?.["application/json"]
  if (request !== undefined) request["examples"] = asExample(example?.request)
  if (id === "tasks.cancel" || id === "tasks.redeliver") operation["requestBody"]["required"] = false
  for (const [status, response] of Object.entries<Node>(operation["responses"])) {
    response["headers"] = headersOf(headerNames(id, status))
    response["description"] = describeResponse(id, status)
    const isSuccess = status.startsWith("2")
    for (const [type, content] of Object.entries<Node>(response["content"] ?? {})) {
      content["examples"] = asExample(
        isSuccess
          ? example?.response
          : id === "core.report" && status === "409"
          ? { message: "The run is not the task's current one: stop it.", status: "canceled" }
          : errorExamples[status]
      )
      if (type === "text/event-stream") content["schema"] = eventStream
    }
  }
  for (const [status, names] of Object.entries(bodiless[id] ?? {})) {
    operation["responses"][status] = { description: describeResponse(id, status), headers: headersOf(names) }
  }
}

const webhook: Node = {
  post: {
    operationId: "taskChanged",
    summary: "A task ended or was interrupted",
    description:
      "Sent to the task's `callback_url` on completed, failed, canceled and interrupted. Any 2xx within 15 seconds is a "
      + "success. Otherwise there are up to 5 attempts, 10, 30, 60 and 120 seconds apart, with the same bytes.",
    tags: ["tasks"],
    security: [],
    parameters: [
      header("X-Task-Uuid", "Task identifier."),
      header(
        "X-Signature",
        "Lower-case hex of HMAC-SHA256 over the body, keyed with `callback_secret`; only when that was set."
      ),
      header("webhook-id", "Standard Webhooks: delivery identifier, the same in every attempt."),
      header("webhook-timestamp", "Standard Webhooks: time of the attempt, in seconds since 1970."),
      header("webhook-signature", "Standard Webhooks: signature; only when `callback_secret` was set.")
    ],
    requestBody: {
      required: true,
      description: "The task, as `GET /api/tasks/{uuid}` returned it at the moment of the event.",
      content: { "application/json": { schema: schemaRef("Task"), examples: asExample(webhookExample) } }
    },
    responses: { "2XX": { description: "The webhook was received and is not sent again." } }
  }
}

/** Schemes are lower-case because tools compare them exactly. */
const securitySchemes: Node = {
  jwt: {
    type: "http",
    scheme: "bearer",
    bearerFormat: "JWT",
    description: "The user's JSON Web Token. Its `sub` is the user."
  },
  internalToken: { type: "http", scheme: "bearer", description: "One of the operator's `INTERNAL_TOKENS`." }
}

/** The finished document. */
export const finish = (generated: Node): Node => {
  const spec = cleanNode(generated)
  const schemas = Object.fromEntries(
    Object.entries<Node>(spec["components"]["schemas"])
      .filter(([name]) => name !== "TaskEventEncoded")
      .map(([name, schema]) => [publicName(name), schema])
  )
  spec["components"] = { schemas: { ...schemas, ...opaqueSchemas }, headers, securitySchemes }
  discriminate(spec["components"]["schemas"])
  describeLiterals(spec["components"]["schemas"])
  for (const path of Object.values<Node>(spec["paths"])) Object.values<Node>(path).forEach(finishOperation)
  return { ...spec, servers: [{ url: "/", description: "This service." }], webhooks: { taskChanged: webhook } }
}
