/**
 * The OpenAPI documents and their pages: `/openapi.json` with `/docs`, and `/internal/openapi.json` with `/internal/docs`.
 * They contain no data and need no token. The pages are self-contained, and their policy forbids loading from other origins.
 */
import { Context, Effect, Layer, Schema } from "effect"
import { HttpRouter, HttpServerResponse } from "effect/http"
import { type HttpApi, type HttpApiGroup, OpenApi } from "effect/http-api"
import { InternalApi, PublicApi } from "./contract/Api.ts"
import { coreCalls } from "./contract/CoreCalls.ts"
import type { Node } from "./contract/OpaqueSchemas.ts"
import { finish } from "./contract/OpenApiTransform.ts"
import { cleanNode } from "./contract/Operation.ts"
import { DevelopmentToken, tokenFor } from "./DevelopmentToken.ts"
import * as DocsPage from "./DocsPage.ts"
import { type ExtensionRoutes, Extensions } from "./ExtensionRoutes.ts"

export const DocumentedVersion = Context.Reference("async-task-service/http/DocumentedVersion", {
  defaultValue: () => "0.0.0"
})

/** Script and styles are inline, and requests go only to this service. */
const headers = {
  "content-security-policy":
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:; "
    + "font-src data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  "referrer-policy": "no-referrer",
  "x-content-type-options": "nosniff"
}

const encoder = new TextEncoder()

/** The bytes before and after the place of a token in a page. */
const splitPage = (page: string) => {
  const end = page.indexOf(DocsPage.tokenField) + DocsPage.tokenField.length
  return [page.slice(0, end), page.slice(end)].map((part) => encoder.encode(part))
}

const join = (parts: ReadonlyArray<Uint8Array>) => {
  const bytes = new Uint8Array(parts.reduce((sum, { length }) => sum + length, 0))
  let offset = 0
  for (const part of parts) {
    bytes.set(part, offset)
    offset += part.length
  }
  return bytes
}

const html = (bytes: Uint8Array) =>
  HttpServerResponse.uint8Array(bytes, { contentType: "text/html; charset=utf-8", headers })

const documented = <Id extends string, Groups extends HttpApiGroup.Constraint>(
  api: HttpApi.HttpApi<Id, Groups>,
  paths: { readonly document: `/${string}`; readonly page: `/${string}` },
  complete: (document: OpenApi.OpenAPISpec) => OpenApi.OpenAPISpec
) =>
  HttpRouter.use(Effect.fnUntraced(function*(router) {
    const mint = yield* DevelopmentToken
    const found = yield* Effect.cached(Effect.sync(() => complete(OpenApi.fromApi(api))))
    const document = yield* Effect.cached(Effect.map(found, (value) => HttpServerResponse.jsonUnsafe(value)))
    const page = yield* Effect.cached(Effect.map(found, (value) => {
      const parts = splitPage(DocsPage.render(value, paths.document, paths.page === "/docs"))
      return { parts, shared: html(join(parts)) }
    }))
    yield* router.add("GET", paths.document, document)
    yield* router.add(
      "GET",
      paths.page,
      Effect.fnUntraced(function*(request) {
        const { parts: [before, after], shared } = yield* page
        const token = yield* tokenFor(mint, request)
        if (token === undefined || before === undefined || after === undefined) return shared
        // The token is that of this request.
        const filled = html(join([before, encoder.encode(token), after]))
        return HttpServerResponse.setHeader(filled, "cache-control", "no-store")
      })
    )
  }))

type TaskFields = ReadonlyArray<NonNullable<ExtensionRoutes["taskField"]>>

/** A schema and those that it names, as components. */
const componentsOf = (schema: Schema.Top) => {
  const { definitions, schema: found } = Schema.toJsonSchemaDocument(schema)
  const text = JSON.stringify({ definitions, found }).replaceAll("#/$defs/", "#/components/schemas/").replaceAll(
    ",\"additionalProperties\":true",
    ""
  )
  const { definitions: components, found: field } = JSON.parse(text)
  return { components: cleanNode(components), field: cleanNode(field) }
}

/** Adds the parameters that select tasks to the list at `path`. */
const addSelections = (document: OpenApi.OpenAPISpec, path: string, fields: TaskFields) => {
  for (const { name, parameter } of fields) {
    if (parameter === undefined) continue
    const { schema, selects } = parameter
    document.paths[path]?.get?.parameters.push({ name, in: "query", description: selects, required: false, schema })
  }
}

/** Adds the fields of extensions to a copy of the document of clients. */
export const withTaskFields = (fields: TaskFields) => (given: OpenApi.OpenAPISpec): OpenApi.OpenAPISpec => {
  if (fields.length === 0) return given
  const document = structuredClone(given)
  const task = document.paths["/api/tasks/{uuid}"]
  const schemas: Node = document.components.schemas
  addSelections(document, "/api/tasks", fields)
  for (const { includes, name, schema } of fields) {
    const include = task?.get?.parameters.find((parameter) => parameter.name === "include")
    if (include !== undefined) {
      include.description = `${include.description ?? ""} ${includes}`.trim()
      // `include` of the contract is a list of names.
      const items = (include.schema as { readonly items: { readonly enum: Array<string> } }).items
      items.enum.push(name)
    }
    const { components, field } = componentsOf(schema)
    Object.assign(schemas, components)
    schemas["Task"].properties[name] = {
      ...field,
      description: `Present only with \`?include=${name}\`: ${field["description"]}`
    }
  }
  return document
}

/** The document of clients, with the groups of extensions. */
const layerPublic = (version: string) =>
  Layer.unwrap(Effect.map(Extensions, (extensions) => {
    const paths = { document: "/openapi.json", page: "/docs" } as const
    const api = PublicApi.annotate(OpenApi.Version, version)
    const [first, ...others] = extensions.flatMap(({ publicGroup }) => publicGroup ?? [])
    const complete = withTaskFields(extensions.flatMap(({ taskField }) => taskField ?? []))
    return first === undefined
      ? documented(api, paths, complete)
      : documented(api.add(first, ...others), paths, complete)
  }))

/** The internal document, with the groups of extensions. */
const layerInternal = (version: string) =>
  Layer.unwrap(Effect.map(Extensions, (extensions) => {
    const paths = { document: "/internal/openapi.json", page: "/internal/docs" } as const
    const added = extensions.flatMap((extension) => extension.documented ?? [])
    const schemes = Object.assign({}, ...added.map(({ securitySchemes = {} }) => securitySchemes))
    const api = InternalApi.annotate(OpenApi.Version, version).annotate(OpenApi.Transform, finish(coreCalls, schemes))
    const [first, ...others] = added.map(({ group }) => group)
    const fields = extensions.flatMap(({ taskField }) => taskField ?? [])
    const complete = (given: OpenApi.OpenAPISpec) => {
      const document = structuredClone(given)
      for (const { selecting } of added) if (selecting !== undefined) addSelections(document, selecting, fields)
      return document
    }
    return first === undefined
      ? documented(api, paths, complete)
      : documented(api.add(first, ...others), paths, complete)
  }))

export const layer = Layer.unwrap(
  Effect.map(DocumentedVersion, (version) => Layer.merge(layerPublic(version), layerInternal(version)))
)
