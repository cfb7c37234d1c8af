/**
 * The OpenAPI documents and their pages: `/openapi.json` with `/docs`, and `/internal/openapi.json` with `/internal/docs`.
 * They contain no data and need no token. The pages are self-contained, and their policy forbids loading from other origins.
 */
import { Context, Effect, Layer } from "effect"
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

const scheme = `"preferredSecurityScheme":"jwt"`

/** The page with a token filled in, for this request only. */
const withToken = (response: HttpServerResponse.HttpServerResponse, token: string) =>
  response.body._tag === "Uint8Array"
    ? HttpServerResponse.setHeader(
      HttpServerResponse.html(
        new TextDecoder().decode(response.body.body).replace(
          scheme,
          `${scheme},"securitySchemes":{"jwt":{"token":"${token}"}}`
        )
      ),
      "cache-control",
      "no-store"
    )
    : response

const secured = HttpRouter.middleware(
  Effect.map(DevelopmentToken, (mint) => (page) =>
    Effect.gen(function*() {
      const response = yield* page
      const token = yield* tokenFor(mint, yield* HttpServerRequest.HttpServerRequest)
      return HttpServerResponse.setHeaders(token === undefined ? share(response) : withToken(response, token), headers)
    }))
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
