/**
 * The OpenAPI documents and their pages: `/openapi.json` with `/docs`, and `/internal/openapi.json` with `/internal/docs`.
 * They contain no data and need no token. The pages are self-contained, and their policy forbids loading from other origins.
 */
import { Effect, Layer } from "effect"
import { HttpBody, HttpRouter, HttpServerRequest, HttpServerResponse } from "effect/http"
import { type HttpApi, type HttpApiGroup, HttpApiScalar, OpenApi } from "effect/http-api"
import { InternalApi, PublicApi } from "./contract/Api.ts"
import { DevelopmentToken, tokenFor } from "./DevelopmentToken.ts"

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
  hideClientButton: true
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

const secured = HttpRouter.middleware(
  Effect.map(DevelopmentToken, (mint) => {
    const pages = new WeakMap<Uint8Array, ReturnType<typeof splitPage>>()
    const partsOf = ({ body }: HttpServerResponse.HttpServerResponse) => {
      if (body._tag !== "Uint8Array") return undefined
      if (!pages.has(body.body)) pages.set(body.body, splitPage(body.body))
      return pages.get(body.body)
    }
    return (page) =>
      Effect.gen(function*() {
        const response = yield* page
        const token = yield* tokenFor(mint, yield* HttpServerRequest.HttpServerRequest)
        const parts = token === undefined ? undefined : partsOf(response)
        const answer = token === undefined || parts === undefined ? share(response) : withToken(response, parts, token)
        return HttpServerResponse.setHeaders(answer, headers)
      })
  })
)

const documented = <Id extends string, Groups extends HttpApiGroup.Constraint>(
  api: HttpApi.HttpApi<Id, Groups>,
  paths: { readonly document: `/${string}`; readonly page: `/${string}` },
  preferredSecurityScheme: string
) => {
  let response: HttpServerResponse.HttpServerResponse | undefined
  const document = Effect.sync(() => response ??= HttpServerResponse.jsonUnsafe(OpenApi.fromApi(api)))
  return Layer.merge(
    HttpRouter.add("GET", paths.document, document),
    HttpApiScalar.layer(api, { path: paths.page, scalar: { ...scalar, authentication: { preferredSecurityScheme } } })
      .pipe(Layer.provide(secured.layer))
  )
}

export const layer = Layer.merge(
  documented(PublicApi, { document: "/openapi.json", page: "/docs" }, "jwt"),
  documented(InternalApi, { document: "/internal/openapi.json", page: "/internal/docs" }, "internalToken")
)
