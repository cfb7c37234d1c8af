/**
 * The OpenAPI documents and their pages: `/openapi.json` with `/docs`, and `/internal/openapi.json` with `/internal/docs`.
 * They contain no data and need no token. The pages are self-contained, and their policy forbids loading from other origins.
 */
import { Context, Duration, Effect, Layer } from "effect"
import { HttpBody, HttpRouter, HttpServerRequest, HttpServerResponse } from "effect/http"
import { type HttpApi, type HttpApiGroup, HttpApiScalar, OpenApi } from "effect/http-api"
import { InternalApi, PublicApi } from "./contract/Api.ts"
import { DevelopmentToken, tokenFor } from "./DevelopmentToken.ts"

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

/** Disables what needs the internet: fonts, telemetry, sharing. Effect's type lacks the last three options. */
const scalar = {
  withDefaultFonts: false,
  favicon: "data:,",
  telemetry: false,
  showDeveloperTools: "never",
  hideClientButton: true,
  // Without servers Scalar uses the page's origin; joined with a path, "/" of the document becomes a double slash.
  servers: []
}

/** Answers every connection with the same bytes: Node would copy the 3 MB of text for each. */
const share = (response: HttpServerResponse.HttpServerResponse) =>
  response.body._tag === "Uint8Array"
    ? HttpServerResponse.setBody(response, HttpBody.uint8Array(response.body.body, response.body.contentType))
    : response

const encoder = new TextEncoder()

/** The bytes before and after the place of a token in a page. Undefined if the page takes none. */
const splitPage = (page: Uint8Array) => {
  const scheme = `"preferredSecurityScheme":"jwt"`
  const index = new TextDecoder("latin1").decode(page).indexOf(scheme)
  const end = index + scheme.length
  return index < 0 ? undefined : [page.subarray(0, end), page.subarray(end)] as const
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

/** The page with a token filled in, for this request only. */
const withToken = (
  response: HttpServerResponse.HttpServerResponse,
  [before, after]: readonly [Uint8Array, Uint8Array],
  token: string
) => {
  const bytes = join([before, encoder.encode(`,"securitySchemes":{"jwt":{"token":"${token}"}}`), after])
  const filled = HttpServerResponse.setBody(response, HttpBody.uint8Array(bytes, "text/html"))
  return HttpServerResponse.setHeader(filled, "cache-control", "no-store")
}

/** Scalar's script takes 12 MiB of memory, so it is loaded with the first request for the page. */
const makePage = <Id extends string, Groups extends HttpApiGroup.Constraint>(
  api: HttpApi.HttpApi<Id, Groups>,
  path: `/${string}`,
  preferredSecurityScheme: string
) =>
  HttpRouter.toHttpEffect(
    HttpApiScalar.layer(api, { path, scalar: { ...scalar, authentication: { preferredSecurityScheme } } })
  ).pipe(
    Effect.flatten,
    // The path of the first request may end with a slash.
    Effect.updateService(HttpServerRequest.HttpServerRequest, (request) => request.modify({ url: path })),
    Effect.scoped,
    Effect.map((response) => ({
      shared: HttpServerResponse.setHeaders(share(response), headers),
      parts: response.body._tag === "Uint8Array" ? splitPage(response.body.body) : undefined
    }))
  )

const documented = <Id extends string, Groups extends HttpApiGroup.Constraint>(
  api: HttpApi.HttpApi<Id, Groups>,
  paths: { readonly document: `/${string}`; readonly page: `/${string}` },
  preferredSecurityScheme: string
) =>
  HttpRouter.use(Effect.fnUntraced(function*(router) {
    const mint = yield* DevelopmentToken
    const document = yield* Effect.cached(Effect.sync(() => HttpServerResponse.jsonUnsafe(OpenApi.fromApi(api))))
    const [page, forget] = yield* Effect.cachedInvalidateWithTTL(
      makePage(api, paths.page, preferredSecurityScheme),
      Duration.infinity
    )
    yield* router.add("GET", paths.document, document)
    yield* router.add(
      "GET",
      paths.page,
      Effect.fnUntraced(function*(request) {
        // The script is a file, which may be unreadable for a moment.
        const { parts, shared } = yield* Effect.onError(page, () => forget)
        const token = yield* tokenFor(mint, request)
        return token === undefined || parts === undefined ? shared : withToken(shared, parts, token)
      })
    )
  }))

export const layer = Layer.unwrap(Effect.map(DocumentedVersion, (version) =>
  Layer.merge(
    documented(
      PublicApi.annotate(OpenApi.Version, version),
      { document: "/openapi.json", page: "/docs" },
      "jwt"
    ),
    documented(
      InternalApi.annotate(OpenApi.Version, version),
      { document: "/internal/openapi.json", page: "/internal/docs" },
      "internalToken"
    )
  )))
