/** CORS: only web pages of configured origins may call the service. */
import { Effect, Layer } from "effect"
import { HttpMiddleware, HttpRouter, HttpServerRequest } from "effect/http"
import { isOfConsole } from "./Routes.ts"

/** A list of origins, or `*` for all. An empty list allows none. */
export type CorsOrigins = ReadonlyArray<string> | "*"

/** The headers that the official OpenAI SDK sends from a browser. */
const openAiHeaders = [
  "OpenAI-Beta",
  "OpenAI-Organization",
  "OpenAI-Project",
  "X-Stainless-Arch",
  "X-Stainless-Helper-Method",
  "X-Stainless-Lang",
  "X-Stainless-OS",
  "X-Stainless-Package-Version",
  "X-Stainless-Retry-Count",
  "X-Stainless-Runtime",
  "X-Stainless-Runtime-Version",
  "X-Stainless-Timeout"
]

/** Tokens are sent in a header and never in a cookie, so requests need no credentials mode. */
const allow = (origins: CorsOrigins) =>
  HttpMiddleware.cors({
    allowedOrigins: origins === "*" ? [] : origins,
    allowedMethods: ["GET", "HEAD", "POST", "DELETE"],
    allowedHeaders: [
      "Authorization",
      "Content-Type",
      "Idempotency-Key",
      "If-None-Match",
      "Last-Event-ID",
      "X-Request-Id",
      ...openAiHeaders
    ],
    exposedHeaders: ["ETag", "Idempotent-Replayed", "Location", "Retry-After", "X-Request-Id", "X-Should-Retry"],
    maxAge: 600
  })

/** CORS for the API. The console is a page of this origin, so its paths and those of its sessions allow no other. */
export const layer = (origins: CorsOrigins) =>
  origins.length === 0 ? Layer.empty : HttpRouter.middleware((handler) => {
    const allowed = allow(origins)(handler)
    return Effect.flatMap(HttpServerRequest.HttpServerRequest, (request) => isOfConsole(request) ? handler : allowed)
  }, { global: true })
