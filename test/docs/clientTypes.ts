/** The OpenAPI document of clients, with all extensions, and what the generators of types for both clients have in common. */
import { OpenApi } from "effect/http-api"
import { PublicApi } from "../../src/http/contract/Api.ts"
import { withTaskFields } from "../../src/http/Docs.ts"
import { extensions } from "../../src/runtime/loadedExtensions.ts"

// oxlint-disable-next-line typescript/no-explicit-any -- a schema of any shape
export type Node = Record<string, any>

const routes = extensions.map((extension) => extension.routes)
const [group, ...groups] = routes.flatMap(({ publicGroup }) => publicGroup ?? [])
const api = group === undefined ? PublicApi : PublicApi.add(group, ...groups)

export const document: Node = withTaskFields(routes.flatMap(({ taskField }) => taskField ?? []))(
  OpenApi.fromApi(api as typeof PublicApi)
)

const described: Node = document["components"].schemas

export const schemas: Node = {
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
  }
}

export const pascal = (name: string) => name.replaceAll(/(?:^|_)(\w)/g, (_, letter) => letter.toUpperCase())

export const nameOf = ($ref: string) => $ref.split("/").at(-1) ?? ""

/** The operations of the document by their ids, with the schemas of the parameters of their queries. */
export const operations: ReadonlyArray<{
  readonly id: string
  readonly method: string
  readonly path: string
  readonly tags: ReadonlyArray<string>
  readonly parameters: ReadonlyArray<Node>
  readonly requestBody: Node
  readonly responses: Node
}> = Object.entries<Node>(document["paths"]).flatMap(([path, methods]) =>
  Object.entries<Node>(methods).map((
    [method, { operationId, parameters = [], requestBody = {}, responses, tags = [] }]
  ) => ({
    id: operationId,
    method: method.toUpperCase(),
    path,
    tags,
    parameters,
    requestBody,
    responses
  }))
)

const refsIn = (node: unknown): ReadonlyArray<string> =>
  typeof node !== "object" || node === null
    ? []
    : Object.entries(node).flatMap(([key, value]) => key === "$ref" ? [nameOf(value)] : refsIn(value))

/** The clients have a list, or a page of one, as a list of its items: it has no type of its own. */
const isList = (fields: Node) => {
  const [only, ...others] = Object.keys(fields).filter((name) => name !== "meta")
  return only !== undefined && others.length === 0 && fields[only].type === "array"
}

/** The schemas that a body names. */
const namesIn = ({ content = {} }: Node) =>
  Object.values<Node>(content).flatMap(({ schema }) => refsIn(schema)).flatMap((name) => {
    const { properties = {} } = described[name]
    return isList(properties) ? refsIn(properties) : [name]
  })

/** The bodies of requests, which users write: null means the same as absent in them, and lists may be of any kind. */
export const bodies = [...new Set(operations.flatMap(({ requestBody }) => namesIn(requestBody)))]

/** The bodies of answers, which they read. */
export const answers = [
  ...new Set(
    operations.flatMap(({ responses }) =>
      Object.entries<Node>(responses).flatMap(([status, response]) => status.startsWith("2") ? namesIn(response) : [])
    )
  )
]
