/**
 * Completes the OpenAPI documents that are generated from the schemas: adds names, headers, examples, the forms of opaque
 * JSON and webhooks, and removes whatever would make a generated client refuse a field that is added later.
 */
import { extensions } from "../../domain/FileFormat.ts"
import * as Limits from "../../domain/Limits.ts"
import { deliveryId, errorExamples, examples, uuid, webhookExample } from "./Examples.ts"
import { type Node, opaqueSchemas, schemaRef } from "./OpaqueSchemas.ts"
import { header, idempotencyKey, parameters } from "./OpenApiParameters.ts"
import { operatorExamples, operatorNames, operatorParameters } from "./OperatorDocs.ts"
import { commonErrors, describeResponse } from "./ResponseDescriptions.ts"

const isNode = (value: unknown): value is Node => typeof value === "object" && value !== null && !Array.isArray(value)

/** A union without repeated members; `{}` (any value) if one member is `{}`. */
const anyOf = (schemas: ReadonlyArray<unknown>): Node =>
  schemas.some((schema) => isNode(schema) && Object.keys(schema).length === 0)
    ? {}
    : { anyOf: [...new Map(schemas.map((schema) => [JSON.stringify(schema), schema])).values()] }

/** The generated names of error schemas end with `Encoded`. All errors but these two have the same body. */
const publicName = (ref: string) =>
  ref.replace(
    /\w+Encoded$/,
    (name) =>
      /^(ValidationFailed|RunConflict|TaskEvent)Encoded$/.test(name) ? name.slice(0, -"Encoded".length) : "ApiError"
  )

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
      if (!Array.isArray(cleaned)) return { [key]: cleaned }
      // An `allOf` here is a reference with its own description, which generators do not understand.
      return key === "anyOf" ? anyOf(cleaned) : key === "allOf" ? Object.assign({}, ...cleaned) : { [key]: cleaned }
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

/** Headers of responses that have no body, and so no schema. */
const bodiless: Readonly<Record<string, Readonly<Record<string, ReadonlyArray<string>>>>> = {
  "tasks.get": { 304: ["X-Request-Id", "ETag"] },
  "tasks.events": { 204: ["X-Request-Id"] }
}

const errorResponse = (status: string): Node => ({
  description: commonErrors[status],
  headers: headersOf(["X-Request-Id"]),
  content: { "application/json": { schema: schemaRef("ApiError"), examples: asExample(errorExamples[status]) } }
})

const headerNames = (id: string, status: string): ReadonlyArray<string> => {
  const names = ["X-Request-Id"]
  if (status === "401") names.push("WWW-Authenticate")
  if (status === "429" || status === "503") names.push("Retry-After")
  if (status === "201" && (id === "tasks.create" || id === "tasks.rerun")) names.push("Location")
  if (status === "200" && id === "tasks.get") names.push("ETag")
  if (status.startsWith("2") && parameters[id]?.includes(idempotencyKey)) names.push("Idempotent-Replayed")
  return names
}

/** Most clients return the text of the whole stream; others parse server-sent events and return the data of each. */
const eventStream: Node = {
  description: "Server-sent events, each with a TaskEvent as its `data`.",
  anyOf: [{ type: "string" }, schemaRef("TaskEvent")]
}

/** Names of operations that do not follow the rule of `operationName`. */
const operationNames: Readonly<Record<string, string>> = {
  "files.storageBase": "getStorageBase",
  "tasks.list": "listTasks",
  "tasks.events": "getTaskEvents",
  "tasks.deliveries": "listDeliveries",
  "tasks.redeliver": "redeliverWebhook",
  "tasks.cancelInterrupted": "cancelInterruptedTasks",
  "core.report": "reportCoreEvent",
  "tokens.revoke": "revokeTokens",
  "operations.metrics": "getMetrics",
  ...operatorNames
}

/** The name of the generated method: `tasks.create` is `createTask`, and `tasks.submitToolResults` is `submitToolResults`. */
const operationName = (id: string) => {
  const [group = "", verb = ""] = id.split(".")
  const noun = group.charAt(0).toUpperCase() + group.slice(1).replace(/s$/, "")
  return operationNames[id] ?? (/[A-Z]/.test(verb) ? verb : verb + noun)
}

const fileRules =
  `Up to ${Limits.fileBytes / 1024} KB, in one of the formats ${extensions.join(", ")} by its extension `
  + "(also jpeg and htm), with a matching content type or none. Programs are refused under any name."

/** `examples` rather than `example`, because documentation pages show only the former for responses. */
const asExample = (value: unknown) => ({ example: { value } })

const pathParameters: Readonly<Record<string, Node>> = {
  uuid: { description: "Task identifier, a UUID.", example: uuid },
  id: { description: "Delivery identifier.", example: deliveryId },
  instance: { description: "The process, as the list of nodes names it.", example: uuid }
}

const finishOperation = (operation: Node) => {
  const id = String(operation["operationId"])
  const example = examples[id] ?? operatorExamples[id]
  const generated: ReadonlyArray<Node> = operation["parameters"]
  const inPath = generated.filter((parameter) => parameter["in"] === "path")
  for (const parameter of inPath) {
    Object.assign(parameter, pathParameters[parameter["name"]])
  }
  operation["parameters"] = [...inPath, ...parameters[id] ?? operatorParameters[id] ?? []]
  const form = operation["requestBody"]?.["content"]?.["multipart/form-data"]?.["schema"]
  if (form !== undefined) form["properties"]["file"]["description"] = fileRules
  const request = operation["requestBody"]?.["content"]?.["application/json"]
  if (request !== undefined) request["examples"] = asExample(example?.request)
  if (["tasks.cancel", "tasks.redeliver", "tasks.rerun", "operator.cancel"].includes(id)) {
    operation["requestBody"]["required"] = false
  }
  for (const [status, response] of Object.entries<Node>(operation["responses"])) {
    response["headers"] = headersOf(headerNames(id, status))
    response["description"] = describeResponse(id, status)
    const isSuccess = status.startsWith("2")
    for (const [type, content] of Object.entries<Node>(response["content"] ?? {})) {
      content["examples"] = asExample(
        isSuccess
          ? example?.response
          : id === "core.report" && status === "409"
          ? { message: "The run is not the task's current one, or the task has ended: stop it.", status: "canceled" }
          : errorExamples[status]
      )
      if (type === "text/event-stream") content["schema"] = eventStream
    }
  }
  for (const [status, names] of Object.entries(bodiless[id] ?? {})) {
    operation["responses"][status] = { description: describeResponse(id, status), headers: headersOf(names) }
  }
  for (const status of Object.keys(commonErrors)) {
    operation["responses"][status] ??= { $ref: `#/components/responses/Error${status}` }
  }
  operation["operationId"] = operationName(id)
}

/** The webhook of a task. */
export const taskWebhook: Node = {
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
    description:
      "The user's JSON Web Token. Required claims: `sub`, the user, and `exp`, in seconds since 1970. `iss` and `aud` are "
      + "required when the operator configured them; `iat`, `nbf` and `jti` are checked when present."
  },
  operatorToken: {
    type: "http",
    scheme: "bearer",
    description: "One of the operator's `INTERNAL_TOKENS`, or of `OPERATOR_READ_TOKENS` for calls that change nothing."
  },
  internalToken: { type: "http", scheme: "bearer", description: "One of the operator's `INTERNAL_TOKENS`." }
}

/** The names of the components that a node refers to, directly or through other components. */
const usedBy = (node: unknown, components: Node, found = new Set<string>()): ReadonlySet<string> => {
  for (const [, kind = "", name = ""] of JSON.stringify(node).matchAll(/"#\/components\/(\w+)\/([\w-]+)"/g)) {
    if (found.has(`${kind}/${name}`)) continue
    found.add(`${kind}/${name}`)
    usedBy(components[kind]?.[name], components, found)
  }
  return found
}

const withoutUnused = (components: Node, used: ReadonlySet<string>): Node =>
  Object.fromEntries(
    Object.entries<Node>(components).map(([kind, named]) => [
      kind,
      Object.fromEntries(Object.entries(named).filter(([name]) => used.has(`${kind}/${name}`)))
    ])
  )

/** The finished document. */
export const finish = (webhooks: Node) => (generated: Node): Node => {
  const { components: { schemas: named, securitySchemes: schemes }, ...spec } = cleanNode(generated)
  const schemas = {
    ...Object.fromEntries(
      Object.entries<Node>(named).filter(([name]) => name !== "TaskEventEncoded").map(([name, schema]) => [
        publicName(name),
        schema
      ])
    ),
    ...opaqueSchemas
  }
  discriminate(schemas)
  describeLiterals(schemas)
  for (const path of Object.values<Node>(spec["paths"])) Object.values<Node>(path).forEach(finishOperation)
  const responses = Object.fromEntries(
    Object.keys(commonErrors).map((status) => [`Error${status}`, errorResponse(status)])
  )
  const components = { schemas, headers, responses }
  return {
    ...spec,
    servers: [{ url: "/", description: "This service." }],
    webhooks,
    components: {
      ...withoutUnused(components, usedBy([spec, webhooks], components)),
      securitySchemes: Object.fromEntries(Object.keys(schemes).map((name) => [name, securitySchemes[name]]))
    }
  }
}
