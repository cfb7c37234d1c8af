/** CORS: only web pages of configured origins may call the service. */
import { Effect, Layer } from "effect"
import { HttpMiddleware, HttpRouter, HttpServerRequest } from "effect/http"
import { Extensions } from "./ExtensionRoutes.ts"
import { isSameOriginOnly } from "./Routes.ts"

/** A list of origins, or `*` for all. An empty list allows none. */
export type CorsOrigins = ReadonlyArray<string> | "*"

/** The headers that a preflight asks for. */
const asked = ({ headers }: HttpServerRequest.HttpServerRequest) =>
  (headers["access-control-request-headers"] ?? "").split(",").map((name) => name.trim()).filter((name) =>
    /^[\w!#$%&'+.^`|~-]+$/.test(name)
  )

/**
 * Tokens are sent in a header and never in a cookie, so requests need no credentials mode. Whatever a page asks for is allowed:
 * what tracing and HTTP libraries add by themselves has no end, and one header that is refused fails every call of the page.
 */
const allow = (origins: CorsOrigins, headers: ReadonlyArray<string>) =>
  HttpMiddleware.cors({
    allowedOrigins: origins === "*" ? [] : origins,
    allowedMethods: ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"],
    allowedHeaders: [
      "Authorization",
      "Content-Type",
      "Idempotency-Key",
      "If-Match",
      "If-None-Match",
      "Last-Event-ID",
      "X-Request-Id",
      ...headers
    ],
    exposedHeaders: [
      "ETag",
      "Idempotent-Replayed",
      "Location",
      "Retry-After",
      "WWW-Authenticate",
      "X-Request-Id",
      "X-Should-Retry"
    ],
    maxAge: 600
  })

/** CORS for the API. The pages of an extension are of this origin, so their paths allow no other. */
export const layer = (origins: CorsOrigins) =>
  origins.length === 0 ? Layer.empty : HttpRouter.middleware(
    Effect.map(Extensions, (extensions) => {
      const own = extensions.flatMap(({ corsHeaders = [] }) => corsHeaders)
      return (handler) =>
        Effect.flatMap(
          HttpServerRequest.HttpServerRequest,
          (request) =>
            isSameOriginOnly(extensions, request) ? handler : allow(origins, [...own, ...asked(request)])(handler)
        )
    }),
    { global: true }
  )
