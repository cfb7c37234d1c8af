/**
 * The description of an operation, as an annotation of its endpoint: its name, parameters, examples and responses in the OpenAPI
 * document. What follows from the schemas is not repeated here.
 */
import { OpenApi } from "effect/http-api"
import * as FileFormat from "../../domain/FileFormat.ts"
import * as Limits from "../../domain/Limits.ts"
import * as Defects from "../Defects.ts"
import { codeOfStatus, type ErrorCodes } from "./ErrorCodes.ts"
import { deliveryId, uuid } from "./Examples.ts"
import { type Node, schemaRef } from "./OpaqueSchemas.ts"

interface ResponseDocs {
  readonly description: string
  /** Headers besides those of all responses. */
  readonly headers?: ReadonlyArray<keyof typeof headers>
  /** The body, if it is not the one of `response` or of the status. */
  readonly example?: unknown
}

interface OperationDocs {
  /** The name of the generated method. */
  readonly name: string
  readonly summary: string
  readonly description: string
  /** Descriptions of parameters of the path that the core does not have. */
  readonly path?: Readonly<Record<string, Node>>
  /** Parameters outside the path; they replace the generated ones. */
  readonly parameters?: ReadonlyArray<Node>
  /** An example of the JSON body of the request. */
  readonly request?: unknown
  readonly isBodyOptional?: boolean
  /** The bound of the JSON body, if it is not that of a task. */
  readonly bodyBytes?: number
  /** An example of the body of the success response. */
  readonly response?: unknown
  /** The schema of a stream of server-sent events, if they are not those of a task. */
  readonly stream?: Node
  /** Every success by its status, also one without a schema; and errors with a meaning specific to the operation. */
  readonly responses: Readonly<Record<number, string | ResponseDocs>>
}

/** The response of an error that has a code of its own. */
export const refusal = <Codes extends ErrorCodes>(
  codes: Codes,
  code: keyof Codes & string,
  description = codes[code]?.[1] ?? ""
): ResponseDocs => ({ description, example: { message: description, code } })

export const isNode = (value: unknown): value is Node =>
  typeof value === "object" && value !== null && !Array.isArray(value)

/** A union without repeated members; `{}` (any value) if one member is `{}`. */
const anyOf = (schemas: ReadonlyArray<unknown>): Node =>
  schemas.some((schema) => isNode(schema) && Object.keys(schema).length === 0)
    ? {}
    : { anyOf: [...new Map(schemas.map((schema) => [JSON.stringify(schema), schema])).values()] }

/** The generated names of error schemas end with `Encoded`. All errors but these two have the same body. */
export const publicName = (ref: string) =>
  ref.replace(
    /\w+Encoded$/,
    (name) =>
      /^(ValidationFailed|RunConflict|TaskEvent)Encoded$/.test(name) ? name.slice(0, -"Encoded".length) : "ApiError"
  )

/** Objects stay open because fields may be added. The bounds of safe integers carry no information. */
const isNoise = (key: string, value: unknown) =>
  (key === "additionalProperties" && (value === false || (isNode(value) && Object.keys(value).length === 0))) ||
  key === "x-effect-stream" ||
  (key === "minimum" && value === Number.MIN_SAFE_INTEGER) || (key === "maximum" && value === Number.MAX_SAFE_INTEGER)

const clean = (value: unknown): unknown => {
  if (Array.isArray(value)) return value.map(clean)
  return isNode(value) ? cleanNode(value) : value
}

export const cleanNode = (node: Node): Node => {
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

export const integer = (minimum: number, maximum: number, fallback: number | undefined): Node => ({
  type: "integer",
  minimum,
  maximum,
  ...(fallback === undefined ? {} : { default: fallback })
})
export const query = (name: string, description: string, schema: Node, more: Node = {}): Node => ({
  name,
  in: "query",
  required: false,
  description,
  schema,
  ...more
})
export const header = (name: string, description: string, schema: Node = { type: "string" }): Node => ({
  name,
  in: "header",
  required: false,
  description,
  schema
})

export const idempotencyKey = header(
  "Idempotency-Key",
  "Identifies the request, so that a repeated request takes effect only once. Remembered for 24 hours per user.",
  { type: "string", minLength: 1, maxLength: Limits.idempotencyKeyLength, pattern: "^[!-~]+$" }
)

export const headers: Node = {
  "X-Request-Id": {
    description: "Identifier of the request in the service's logs: the client's own if it sent a usable one.",
    schema: { type: "string" }
  },
  "Retry-After": { description: "Seconds to wait before trying again.", schema: { type: "integer" } },
  "Accept-Encoding": { description: "Always `identity`.", schema: { type: "string" } },
  "X-Accel-Buffering": {
    description: "Always `no`: a proxy passes each event on at once.",
    schema: { type: "string" }
  },
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

/** `examples` rather than `example`, because documentation pages show only the former for responses. */
export const asExample = (value: unknown) => ({ example: { value } })

/** The body of each error status. */
const errorExamples: Readonly<Record<string, unknown>> = {
  400: { message: "The request is not valid HTTP.", code: codeOfStatus(400) },
  401: { message: "The token is missing, invalid, expired or revoked.", code: codeOfStatus(401) },
  403: { message: "The task belongs to another user.", code: "task_belongs_to_another" },
  404: { message: "There is no such task.", code: "task_not_found" },
  408: { message: "The request body did not arrive in time.", code: codeOfStatus(408) },
  415: { message: "The request body must come without a Content-Encoding.", code: codeOfStatus(415) },
  422: {
    message: "input.0.type: Expected one of text, file, voice",
    code: codeOfStatus(422),
    errors: { "input.0.type": ["Expected one of text, file, voice"] }
  },
  431: { message: "The headers are larger than 16384 bytes.", code: codeOfStatus(431) },
  500: { message: Defects.message, code: codeOfStatus(500) },
  502: { message: "The assistant backend did not respond as expected.", code: codeOfStatus(502) },
  503: { message: "The service cannot reach its database at the moment. Try again soon.", code: "store_unavailable" }
}

const errors: Readonly<Record<string, string>> = {
  401: "The token is missing, invalid, expired or revoked.",
  403: "The task belongs to another user.",
  404: "There is no such task.",
  408: "The request body did not arrive in time.",
  415: "The body has a `Content-Encoding`: send it plain.",
  422: "The request is not valid; `errors` names every invalid field by its dotted path. A JSON body may have up to "
    + `${Limits.jsonDepth} levels.`,
  502: "The assistant backend did not respond as expected.",
  503:
    "The database, the keys or the revocations are unavailable, or the node has too many large requests. Try again later."
}

/** Errors that any operation may return. */
const commonErrors: Readonly<Record<string, string>> = {
  400: "The request is not valid HTTP, or its `Host` header names more than one host.",
  408: "The request did not arrive in time.",
  431: "The headers of the request are larger than 16 KiB.",
  500: "A fault of the service. Its log has the details under the `X-Request-Id`."
}

/** The components of `commonErrors`. */
export const errorResponses = (): Node =>
  Object.fromEntries(
    Object.entries(commonErrors).map(([status, description]) => [`Error${status}`, {
      description,
      headers: headersOf(["X-Request-Id"]),
      content: { "application/json": { schema: schemaRef("ApiError"), examples: asExample(errorExamples[status]) } }
    }])
  )

/** Most clients return the text of the whole stream; others parse server-sent events and return the data of each. */
const eventStream: Node = {
  description: "Server-sent events, each with a TaskEvent as its `data`, or a TextEvent in an event `text`.",
  anyOf: [{ type: "string" }, schemaRef("TaskEvent"), schemaRef("TextEvent")]
}

const fileRules =
  `Up to ${Limits.fileBytes / 1024} KB, in one of the formats ${FileFormat.described} by its extension, `
  + "or by its content type if the name has none. Programs are refused under any name."

const pathParameters: Readonly<Record<string, Node>> = {
  uuid: { description: "Task identifier, a UUID.", example: uuid },
  id: { description: "Delivery identifier.", example: deliveryId },
  instance: { description: "The process, as the list of nodes names it.", example: uuid }
}

const headerNames = (status: string, { parameters }: OperationDocs, { headers = [] }: ResponseDocs) => {
  const names = ["X-Request-Id", ...headers]
  if (status === "401") names.push("WWW-Authenticate")
  if (status === "415") names.push("Accept-Encoding")
  if (status === "429" || status === "503") names.push("Retry-After")
  if (status.startsWith("2") && parameters?.includes(idempotencyKey)) names.push("Idempotent-Replayed")
  return names
}

const tooLarge = (bytes = Limits.jsonBodyBytes): ResponseDocs => ({
  description: `The JSON body is larger than ${bytes} bytes.`,
  example: { message: `The request body is larger than ${bytes} bytes.`, code: codeOfStatus(413) }
})

const docsOf = (status: string, { bodyBytes, name, responses }: OperationDocs): ResponseDocs => {
  const docs = responses[Number(status)] ?? (status === "413" ? tooLarge(bodyBytes) : errors[status])
  if (docs === undefined) throw new Error(`${name} ${status} has no description`)
  return typeof docs === "string" ? { description: docs } : docs
}

/** The statuses of which each operation has cases of its own: if it says which, the example has its words. */
const isOfOperation = (status: string) => ["403", "404", "409", "429"].includes(status)

const exampleOf = (status: string, { response, responses }: OperationDocs, { description, example }: ResponseDocs) => {
  if (example !== undefined) return example
  if (status.startsWith("2")) return response
  return isOfOperation(status) && responses[Number(status)] !== undefined
    ? { message: description, code: codeOfStatus(Number(status)) }
    : errorExamples[status]
}

const finishResponse = (status: string, response: Node, docs: OperationDocs) => {
  const own = docsOf(status, docs)
  const example = exampleOf(status, docs, own)
  const isStream = response["content"]?.["text/event-stream"] !== undefined
  const names = [...headerNames(status, docs, own), ...(isStream ? ["X-Accel-Buffering"] : [])]
  Object.assign(response, { headers: headersOf(names), description: own.description })
  for (const [type, content] of Object.entries<Node>(response["content"] ?? {})) {
    content["examples"] = asExample(example)
    if (type === "text/event-stream") content["schema"] = docs.stream ?? eventStream
  }
}

const finishOperation = (docs: OperationDocs) => (generated: Node): Node => {
  const operation = cleanNode(generated)
  const inPath = (operation["parameters"] as ReadonlyArray<Node>).filter((parameter) => parameter["in"] === "path")
  for (const parameter of inPath) {
    Object.assign(parameter, pathParameters[parameter["name"]], docs.path?.[parameter["name"]])
  }
  operation["parameters"] = [...inPath, ...docs.parameters ?? []]
  const form = operation["requestBody"]?.["content"]?.["multipart/form-data"]?.["schema"]
  if (form !== undefined) form["properties"]["file"]["description"] = fileRules
  const request = operation["requestBody"]?.["content"]?.["application/json"]
  if (request !== undefined) request["examples"] = asExample(docs.request)
  if (docs.isBodyOptional) operation["requestBody"]["required"] = false
  const responses: Node = operation["responses"]
  for (const status of Object.keys(docs.responses)) responses[status] ??= {}
  for (const [status, response] of Object.entries<Node>(responses)) finishResponse(status, response, docs)
  for (const status of Object.keys(commonErrors)) {
    responses[status] ??= { $ref: `#/components/responses/Error${status}` }
  }
  return operation
}

export const operation = (docs: OperationDocs) =>
  OpenApi.annotations({
    identifier: docs.name,
    summary: docs.summary,
    description: docs.description,
    transform: finishOperation(docs)
  })
