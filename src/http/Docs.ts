/**
 * The OpenAPI documents and their pages: `/openapi.json` with `/docs`, and `/internal/openapi.json` with `/internal/docs`.
 * They contain no data and need no token. The pages are self-contained, and their policy forbids loading from other origins.
 */
import { Context, Effect, Layer } from "effect"
import { HttpRouter, HttpServerResponse } from "effect/http"
import { type HttpApi, type HttpApiGroup, OpenApi } from "effect/http-api"
import { InternalApi, PublicApi } from "./contract/Api.ts"
import { coreCalls } from "./contract/CoreCalls.ts"
import { finish } from "./contract/OpenApiTransform.ts"
import { DevelopmentToken, tokenFor } from "./DevelopmentToken.ts"
import * as DocsPage from "./DocsPage.ts"
import { type ExtensionRoutes, Extensions } from "./ExtensionRoutes.ts"

/** The version of the service, which the documents state. */
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
  links: Links,
  lists: ReadonlyArray<string>
) =>
  HttpRouter.use(Effect.fnUntraced(function*(router) {
    const mint = yield* DevelopmentToken
    const found = yield* Effect.cached(Effect.sync(() => withLinks(links, lists)(OpenApi.fromApi(api))))
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

type Links = ReadonlyArray<NonNullable<ExtensionRoutes["linkParameter"]>>

const linksOf = (extensions: ReadonlyArray<ExtensionRoutes>) =>
  extensions.flatMap(({ linkParameter }) => linkParameter ?? [])

/** Adds to a copy: the parameters are those of the contract. `lists` are the paths of lists of tasks. */
const withLinks = (links: Links, lists: ReadonlyArray<string>) => (given: OpenApi.OpenAPISpec): OpenApi.OpenAPISpec => {
  if (links.length === 0) return given
  const document = structuredClone(given)
  const { "/api/tasks/{uuid}": task } = document.paths
  for (const { includes, name, selects } of links) {
    if (selects !== undefined) {
      for (const list of lists) {
        document.paths[list]?.get?.parameters.push({ name, in: "query", required: false, ...selects })
      }
    }
    const include = task?.get?.parameters.find((parameter) => parameter.name === "include")
    if (include !== undefined) {
      include.description = `${include.description ?? ""} ${includes}`.trim()
      const items = (include.schema as { readonly items: { readonly enum: Array<string> } }).items
      items.enum.push(name)
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
    const lists = ["/api/tasks"]
    return first === undefined
      ? documented(api, paths, linksOf(extensions), lists)
      : documented(api.add(first, ...others), paths, linksOf(extensions), lists)
  }))

/** The internal document, with the groups of extensions. */
const layerInternal = (version: string) =>
  Layer.unwrap(Effect.map(Extensions, (extensions) => {
    const paths = { document: "/internal/openapi.json", page: "/internal/docs" } as const
    const added = extensions.flatMap((extension) => extension.documented ?? [])
    const schemes = Object.assign({}, ...added.map(({ securitySchemes = {} }) => securitySchemes))
    const api = InternalApi.annotate(OpenApi.Version, version).annotate(OpenApi.Transform, finish(coreCalls, schemes))
    const [first, ...others] = added.map(({ group }) => group)
    const lists = added.flatMap(({ selecting }) => selecting ?? [])
    return first === undefined
      ? documented(api, paths, linksOf(extensions), lists)
      : documented(api.add(first, ...others), paths, linksOf(extensions), lists)
  }))

export const layer = Layer.unwrap(
  Effect.map(DocumentedVersion, (version) => Layer.merge(layerPublic(version), layerInternal(version)))
)
