/**
 * Completes the OpenAPI documents that are generated from the schemas: adds names, headers, examples, the forms of opaque
 * JSON and webhooks, and removes whatever would make a generated client refuse a field that is added later.
 */
import * as Limits from "../../domain/Limits.ts"
import { exampleOf, webhookExample } from "./Examples.ts"
import { type Node, opaqueSchemas, schemaRef } from "./OpaqueSchemas.ts"
import { asExample, cleanNode, errorResponses, header, headers, isNode, publicName } from "./Operation.ts"

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

export const taskWebhook: Node = {
  post: {
    operationId: "taskChanged",
    summary: "A task ended or was interrupted",
    description:
      "Sent to the task's `callback_url` on completed, failed, canceled and interrupted. Any 2xx within 15 seconds is a "
      + "success. Otherwise there are up to 5 attempts, 10, 30, 60 and 120 seconds apart, with the same bytes. "
      + `The body may have ${
        Limits.webhookBytes / 1024 ** 2
      } MiB, more than most frameworks and proxies take unless their limit is raised.`,
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
  internalToken: { type: "http", scheme: "bearer", description: "One of the operator's `INTERNAL_TOKENS`." },
  metricsToken: {
    type: "http",
    scheme: "bearer",
    description: "One of the operator's `OPERATOR_READ_TOKENS` or `INTERNAL_TOKENS`."
  },
  coreEventToken: {
    type: "http",
    scheme: "bearer",
    description: "One of the operator's `CORE_EVENT_TOKENS`, or of `INTERNAL_TOKENS` where these are not set."
  }
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

/** Gives each response of JSON without an example the one of its schema. */
const addExamples = (paths: Node, schemas: Node) => {
  for (const { responses } of Object.values<Node>(paths).flatMap((methods) => Object.values<Node>(methods))) {
    for (const { content } of Object.values<Node>(responses)) {
      const { examples, schema } = content?.["application/json"] ?? {}
      if (examples !== undefined) examples.example.value ??= exampleOf(schema, schemas)
    }
  }
}

/** The finished document; `schemes` has the security schemes of extensions. */
export const finish = (webhooks: Node, schemes: Node = {}) => (generated: Node): Node => {
  const { components: { schemas: generatedSchemas, securitySchemes: used }, ...spec } = generated
  const named = cleanNode(generatedSchemas)
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
  addExamples(spec["paths"], schemas)
  const components = { schemas, headers, responses: errorResponses() }
  return {
    ...spec,
    servers: [{ url: "/", description: "This service." }],
    webhooks,
    components: {
      ...withoutUnused(components, usedBy([spec, webhooks], components)),
      securitySchemes: Object.fromEntries(
        Object.keys(used).map((name) => [name, securitySchemes[name] ?? schemes[name]])
      )
    }
  }
}
