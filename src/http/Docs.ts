/** `/docs` shows the OpenAPI document. The page is self-contained, and its policy forbids loading from other origins. */
import { Effect, Layer } from "effect"
import { HttpBody, HttpRouter, HttpServerResponse } from "effect/http"
import { HttpApiScalar } from "effect/http-api"
import { Api } from "./contract/Api.ts"

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
  authentication: { preferredSecurityScheme: "jwt" },
  telemetry: false,
  showDeveloperTools: "never",
  hideClientButton: true
}

/** Answers every connection with the same bytes: Node would copy the 3 MB of text for each. */
const share = (response: HttpServerResponse.HttpServerResponse) =>
  response.body._tag === "Uint8Array"
    ? HttpServerResponse.setBody(response, HttpBody.uint8Array(response.body.body, response.body.contentType))
    : response

const secured = HttpRouter.middleware((page) =>
  Effect.map(page, (response) => HttpServerResponse.setHeaders(share(response), headers))
)

export const layer = HttpApiScalar.layer(Api, { path: "/docs", scalar }).pipe(Layer.provide(secured.layer))
