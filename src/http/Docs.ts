/** `/docs`: the OpenAPI document as a page. It is whole in itself: what it would load from elsewhere its policy forbids. */
import { Effect, Layer } from "effect"
import { HttpRouter, HttpServerResponse } from "effect/http"
import { HttpApiScalar } from "effect/http-api"
import { Api } from "./contract/Api.ts"

/** The page's script and styles are in the page; its requests go to this very service. */
const headers = {
  "content-security-policy":
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:; "
    + "font-src data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  "referrer-policy": "no-referrer",
  "x-content-type-options": "nosniff"
}

/** Without what needs the internet: fonts, telemetry, sharing. The last three are not in Effect's type. */
const scalar = {
  withDefaultFonts: false,
  favicon: "data:,",
  authentication: { preferredSecurityScheme: "jwt" },
  telemetry: false,
  showDeveloperTools: "never",
  hideClientButton: true
}

const secured = HttpRouter.middleware(Effect.map(HttpServerResponse.setHeaders(headers)))

export const layer = HttpApiScalar.layer(Api, { path: "/docs", scalar }).pipe(Layer.provide(secured.layer))
