/** Operations, as the OpenAPI documents describe them. */
import { OpenApi } from "effect/http-api"
import { InternalApi, PublicApi } from "../../src/http/contract/Api.ts"

// oxlint-disable-next-line typescript/no-explicit-any -- a document of any shape
type Node = Record<string, any>

export interface Operation {
  /** The name of the generated method. */
  readonly id: string
  readonly method: string
  /** With the names of its parameters, as in `/api/tasks/{uuid}`. */
  readonly path: string
  readonly isInternal: boolean
  readonly takesIdempotencyKey: boolean
  readonly takesForm: boolean
  /** The example of its JSON body. */
  readonly body: unknown
  /** The names of all fields of its JSON body. */
  readonly fields: ReadonlyArray<string>
}

const fieldsOf = (schema: Node | undefined, { schemas }: Node): ReadonlyArray<string> => {
  if (schema === undefined) return []
  const { $ref, anyOf = [], oneOf = anyOf, properties = {} } = schema
  const own = $ref === undefined ? Object.keys(properties) : fieldsOf(schemas[$ref.split("/").at(-1)], { schemas })
  return [...new Set([...own, ...oneOf.flatMap((member: Node) => fieldsOf(member, { schemas }))])]
}

/** The operations of an OpenAPI document. */
export const operationsOf = ({ components, paths }: Node): ReadonlyArray<Operation> =>
  Object.entries<Node>(paths).flatMap(([path, methods]) =>
    Object.entries<Node>(methods).map(([method, { operationId, parameters, requestBody }]) => {
      const { "application/json": json, "multipart/form-data": form }: Node = requestBody?.content ?? {}
      return {
        id: operationId,
        method: method.toUpperCase(),
        path,
        isInternal: path.startsWith("/internal/"),
        takesIdempotencyKey: parameters.some(({ name }: Node) => name === "Idempotency-Key"),
        takesForm: form !== undefined,
        body: json?.examples.example.value,
        fields: fieldsOf(json?.schema, components)
      }
    })
  )

/** The operations of the core. */
export const operations = [OpenApi.fromApi(PublicApi), OpenApi.fromApi(InternalApi)].flatMap(operationsOf)

/** The path of an operation on a task, or on its first delivery. */
export const pathFor = ({ path }: Pick<Operation, "path">, uuid: string) =>
  path.replace("{uuid}", uuid).replace("{id}", `${uuid}-1`)

/** The methods of a path without parameters, which several operations may match. */
export const methodsOf = (path: string): ReadonlyArray<string> =>
  operations.filter((operation) => new RegExp(`^${operation.path.replaceAll(/\{\w+\}/g, "[^/]+")}$`).test(path))
    .flatMap(({ method }) => method === "GET" ? ["GET", "HEAD"] : [method])
