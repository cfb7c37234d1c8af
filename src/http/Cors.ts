/** CORS: only web pages of configured origins may call the service. */
import { Layer } from "effect"
import { HttpRouter } from "effect/http"

/** A list of origins, or `*` for all. An empty list allows none. */
export type CorsOrigins = ReadonlyArray<string> | "*"

/** Tokens are sent in a header and never in a cookie, so requests need no credentials mode. */
export const layer = (origins: CorsOrigins) =>
  origins.length === 0 ? Layer.empty : HttpRouter.cors({
    allowedOrigins: origins === "*" ? [] : origins,
    allowedMethods: ["GET", "HEAD", "POST", "DELETE"],
    allowedHeaders: [
      "Authorization",
      "Content-Type",
      "Idempotency-Key",
      "If-None-Match",
      "Last-Event-ID",
      "X-Request-Id"
    ],
    exposedHeaders: ["ETag", "Idempotent-Replayed", "Location", "Retry-After", "X-Request-Id"],
    maxAge: 600
  })
