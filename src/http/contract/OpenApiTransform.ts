/**
 * Finishes the OpenAPI document that is made from the schemas: what they cannot say (headers, examples, the forms of
 * opaque JSON, webhooks), and nothing that would make a generated client refuse a field that comes later.
 */
import { extensions } from "../../domain/FileFormat.ts"
import * as Limits from "../../domain/Limits.ts"
import { TaskStatus } from "../../domain/Task.ts"
import { errorExamples, examples, webhookExample } from "./Examples.ts"

// oxlint-disable-next-line typescript/no-explicit-any -- a document of any shape, as OpenApi.Transform takes it
type Node = Record<string, any>

const isNode = (value: unknown): value is Node => typeof value === "object" && value !== null && !Array.isArray(value)

const schemaRef = (name: string) => ({ $ref: `#/components/schemas/${name}` })

/** What any of several schemas allows, each told once; where one of them takes everything there is nothing to tell. */
const anyOf = (schemas: ReadonlyArray<unknown>): Node =>
  schemas.some((schema) => isNode(schema) && Object.keys(schema).length === 0)
    ? {}
    : { anyOf: [...new Map(schemas.map((schema) => [JSON.stringify(schema), schema])).values()] }

/** Errors are named after their status, not after their encoding. */
const publicName = (name: string) => name.replace(/Encoded$/, "")

/** New fields may come: no object is closed. Bounds that every integer has say nothing. */
const isNoise = (key: string, value: unknown) =>
  (key === "additionalProperties" && value === false) || key === "x-effect-stream" ||
  (key === "minimum" && value === Number.MIN_SAFE_INTEGER) || (key === "maximum" && value === Number.MAX_SAFE_INTEGER)

const clean = (value: unknown): unknown => {
  if (Array.isArray(value)) return value.map(clean)
  if (!isNode(value)) return value
  const entries = Object.entries(value).filter(([key, inner]) => !isNoise(key, inner))
  return Object.assign(
    {},
    ...entries.map(([key, inner]) => {
      if (key === "$ref") return { $ref: publicName(String(inner)) }
      const cleaned = clean(inner)
      return key === "anyOf" && Array.isArray(cleaned) ? anyOf(cleaned) : { [key]: cleaned }
    })
  )
}

/** A field that has one value needs no words of its own. */
const describeLiterals = (value: unknown): void => {
  if (Array.isArray(value)) return value.forEach(describeLiterals)
  if (!isNode(value)) return
  if (Array.isArray(value["enum"]) && value["enum"].length === 1) {
    value["description"] ??= `Always \`${value["enum"][0]}\`.`
  }
  Object.values(value).forEach(describeLiterals)
}

/** A union whose members are told apart by their `type` says so. */
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

/** The forms of what the gateway takes as JSON (CONTRACT 2, `turns`, `client_tools`, `turn`). */
const opaqueSchemas: Node = {
  JsonObject: { type: "object", description: "Any JSON object." },
  Turn: {
    type: "object",
    description: "The assistant's answer, passed on from the processing core as it is.",
    properties: {
      output: { ...jsonObjects, description: "What to show: items of type text, image or file, never inline bytes." },
      messages: { ...jsonObjects, description: "The model's messages in full." },
      metadata: {
        ...schemaRef("JsonObject"),
        description: "`model`, `finish_reason`, `usage`, `transcriptions` and more."
      },
      interrupt: { description: "Why the turn stopped short, if it did." }
    }
  },
  ConversationItem: {
    description: "A message, or the whole `turn` of an earlier task, whose messages are spliced in.",
    anyOf: [
      named("A message.", {
        role: { type: "string", enum: ["user", "assistant", "system"], description: "Who says it." },
        content: { anyOf: [{ type: "string" }, jsonObjects], description: "Text, or an array of parts." }
      }, ["role", "content"]),
      named("An earlier turn.", { messages: { ...jsonObjects, description: "Its messages." } }, ["messages"])
    ]
  },
  ClientToolDefinition: {
    description: "A client tool; the nested, MCP and Anthropic forms are accepted too and mean the same.",
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
    description: { type: ["string", "null"], description: "When and how the model should call it." },
    parameters: { anyOf: [schemaRef("JsonObject"), { type: "null" }], description: "JSON Schema of its arguments." },
    strict: { type: ["boolean", "null"], description: "Whether the model must follow `parameters` exactly." }
  }, ["type", "name"])
}

const headers: Node = {
  "X-Request-Id": {
    description: "Names the request in our logs; the client's own when it sent one.",
    schema: { type: "string" }
  },
  "Retry-After": { description: "Seconds to wait before trying again.", schema: { type: "integer" } },
  "WWW-Authenticate": { description: "Always `Bearer`.", schema: { type: "string" } },
  "Idempotent-Replayed": {
    description: "`true` when the answer is that of an earlier request with the same key.",
    schema: { type: "string", enum: ["true"] }
  },
  Location: { description: "Path of the new task.", schema: { type: "string" } },
  ETag: { description: "Names this version of the task.", schema: { type: "string" } }
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
  "Names the request, so that it can be sent again without being carried out again. Kept 24 hours per user.",
  { type: "string", minLength: 1, maxLength: Limits.idempotencyKeyLength, pattern: "^[!-~]+$" }
)

/** Parameters beside those in the path; they take the place of the generated ones. */
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
      "Seconds to hold the answer until the task is terminal or interrupted, or is not the version of `If-None-Match`.",
      integer(1, Limits.waitSeconds, undefined)
    ),
    query("include", "`waiting_on` tells who has to act next.", { type: "string", enum: ["waiting_on"] }),
    header("If-None-Match", "The `ETag` of the version that the client has: 304 while it is the present one.")
  ],
  "tasks.events": [
    header("Last-Event-ID", "The id of the last event that the client has: what came after it is replayed.")
  ]
}

/** Answers that have no body, and so no schema. */
const bodiless: Readonly<Record<string, Node>> = {
  "tasks.get": { 304: { description: "The task has not changed.", headers: headersOf(["X-Request-Id", "ETag"]) } },
  "tasks.events": { 204: { description: "Nothing is left to come.", headers: headersOf(["X-Request-Id"]) } }
}

const errorDescriptions: Readonly<Record<string, string>> = {
  401: "The token is missing, invalid, expired or revoked.",
  403: "The task belongs to another user.",
  404: "Not found.",
  408: "The request body did not arrive in time.",
  409: "The task is not in a status that allows this.",
  413: `The JSON body is larger than ${Limits.jsonBodyBytes} bytes.`,
  415: "The body is of a kind, or in a content encoding, that is not read here.",
  422: "The request is not valid; `errors` names every broken field by its dotted path. A JSON body may have up to "
    + `${Limits.jsonValues} values (items of arrays and members of objects, at any depth) and ${Limits.jsonDepth} levels.`,
  429: "Too many active tasks, requests that wait, uploads at a time, or webhooks sent again.",
  502: "The assistant backend did not answer as expected.",
  503: "The service cannot do this now. Try again later."
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
  + "(jpeg and htm too), with a content type that fits or none. Programs are refused under any name."

/** The form that documentation pages show of answers, too. */
const asExample = (value: unknown) => ({ example: { value } })

const finishOperation = (operation: Node) => {
  const id = String(operation["operationId"])
  const example = examples[id]
  const inPath = (operation["parameters"] as ReadonlyArray<Node>).filter((parameter) => parameter["in"] === "path")
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
    response["description"] = errorDescriptions[status] ?? "Done."
    const isSuccess = status.startsWith("2")
    for (const [type, content] of Object.entries<Node>(response["content"] ?? {})) {
      content["examples"] = asExample(
        isSuccess
          ? example?.answer
          : id === "core.report" && status === "409"
          ? { message: "The run is not the task's current one: stop it.", status: "canceled" }
          : errorExamples[status]
      )
      if (type === "text/event-stream") content["schema"] = eventStream
    }
  }
  Object.assign(operation["responses"], bodiless[id])
}

const webhook: Node = {
  post: {
    operationId: "taskChanged",
    summary: "A task has ended or was interrupted",
    description:
      "Sent to the task's `callback_url` on completed, failed, canceled and interrupted. Any 2xx within 15 seconds counts "
      + "as delivered; else there are up to 5 attempts, 10, 30, 60 and 120 seconds apart, with the same bytes.",
    tags: ["tasks"],
    security: [],
    parameters: [
      header("X-Task-Uuid", "The task."),
      header(
        "X-Signature",
        "Lower-case hex of HMAC-SHA256 over the body, keyed with `callback_secret` when that was set."
      ),
      header("webhook-id", "Standard Webhooks: names the delivery, the same in every attempt."),
      header("webhook-timestamp", "Standard Webhooks: seconds since 1970 of the attempt."),
      header("webhook-signature", "Standard Webhooks: signature, when `callback_secret` was set.")
    ],
    requestBody: {
      required: true,
      description: "The task, as `GET /api/tasks/{uuid}` answered at that moment.",
      content: { "application/json": { schema: schemaRef("Task"), examples: asExample(webhookExample) } }
    },
    responses: { "2XX": { description: "Delivered." } }
  }
}

/** Schemes are written in lower case: tools compare them to the letter. */
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
  const spec = clean(generated) as Node
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
