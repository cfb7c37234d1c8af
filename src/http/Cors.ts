/** Which web pages may call the service (RELIABILITY "Requests"): none unless the operator names them. */
import { Layer } from "effect"
import { HttpRouter } from "effect/http"

/** Origins, or every one there is; an empty list is none. */
export type CorsOrigins = ReadonlyArray<string> | "*"

/** Tokens come in a header and never in a cookie, so that no page needs credentials. */
export const layer = (origins: CorsOrigins) =>
  origins.length === 0 ? Layer.empty : HttpRouter.cors({
    allowedOrigins: origins === "*" ? [] : origins,
    allowedMethods: ["GET", "HEAD", "POST"],
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
