/** CORS: only web pages of configured origins may call the service. */
import { Effect, Layer } from "effect"
import { HttpMiddleware, HttpRouter, HttpServerRequest } from "effect/http"
import { Extensions } from "./ExtensionRoutes.ts"
import { isSameOriginOnly } from "./Routes.ts"

/** A list of origins, or `*` for all. An empty list allows none. */
export type CorsOrigins = ReadonlyArray<string> | "*"

export interface CorsSettings {
  readonly corsOrigins: CorsOrigins
  /** Headers that pages may send besides those that the service knows. */
  readonly corsHeaders: ReadonlyArray<string>
}

/**
 * What tracing and HTTP libraries of pages add to each request, by themselves. The service has no use for most of it, but a
 * header that the preflight refuses fails every call of the page.
 */
const added = [
  // W3C, OpenTelemetry, Zipkin, Jaeger.
  "Traceparent",
  "Tracestate",
  "Baggage",
  "B3",
  "X-B3-TraceId",
  "X-B3-SpanId",
  "X-B3-ParentSpanId",
  "X-B3-Sampled",
  "X-B3-Flags",
  "Uber-Trace-Id",
  "OT-Tracer-TraceId",
  "OT-Tracer-SpanId",
  "OT-Tracer-Sampled",
  "X-OT-Span-Context",
  // Sentry, Datadog, New Relic, Elastic, Dynatrace, Instana, AppDynamics, SkyWalking, Honeycomb.
  "Sentry-Trace",
  "X-Datadog-Trace-Id",
  "X-Datadog-Parent-Id",
  "X-Datadog-Origin",
  "X-Datadog-Sampling-Priority",
  "X-Datadog-Sampled",
  "X-Datadog-Tags",
  "NewRelic",
  "X-NewRelic-ID",
  "X-NewRelic-Transaction",
  "Elastic-Apm-Traceparent",
  "X-Dynatrace",
  "X-DTC",
  "X-DTPC",
  "X-DTReferer",
  "X-Instana-T",
  "X-Instana-S",
  "X-Instana-L",
  "ADRUM",
  "SW8",
  "SW8-Correlation",
  "SW8-X",
  "X-Honeycomb-Trace",
  // Amazon, Google, Azure.
  "X-Amzn-Trace-Id",
  "X-Cloud-Trace-Context",
  "GRPC-Trace-Bin",
  "Request-Id",
  "Request-Context",
  "X-MS-Client-Request-Id",
  "X-MS-Request-Id",
  // Ids that proxies and apps make up.
  "X-Request-Id",
  "X-Request-Start",
  "X-Correlation-Id",
  "Correlation-Id",
  "X-Trace-Id",
  "X-Span-Id",
  "X-Client-Trace-Id",
  "X-Session-Id",
  // HTTP libraries.
  "Accept",
  "Accept-Language",
  "Cache-Control",
  "Pragma",
  "User-Agent",
  "X-Requested-With"
]

/** Tokens are sent in a header and never in a cookie, so requests need no credentials mode. */
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
      ...added,
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

/** No page of another origin may call the service. */
export const none: CorsSettings = { corsOrigins: [], corsHeaders: [] }

/** CORS for the API. The pages of an extension are of this origin, so their paths allow no other. */
export const layer = ({ corsHeaders: more, corsOrigins: origins }: CorsSettings) =>
  origins.length === 0 ? Layer.empty : HttpRouter.middleware(
    Effect.map(Extensions, (extensions) => {
      const cors = allow(origins, [...extensions.flatMap(({ corsHeaders = [] }) => corsHeaders), ...more])
      return (handler) => {
        const allowed = cors(handler)
        return Effect.flatMap(
          HttpServerRequest.HttpServerRequest,
          (request) => isSameOriginOnly(extensions, request) ? handler : allowed
        )
      }
    }),
    { global: true }
  )
