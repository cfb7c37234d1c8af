/** The metrics endpoint of a node. */
import { Effect, Layer } from "effect"
import { HttpServerResponse } from "effect/http"
import { HttpApiBuilder } from "effect/http-api"
import { PrometheusMetrics } from "effect/observability"
import { TaskCensus } from "../../services/operations/TaskCensus.ts"
import { prometheusName } from "../../services/telemetry/Metrics.ts"
import { Api } from "../contract/Api.ts"

/** Prometheus's text format. */
const contentType = "text/plain; version=0.0.4; charset=utf-8"

export const layer = HttpApiBuilder.group(
  Api,
  "operations",
  Effect.fn(function*(handlers) {
    const census = yield* TaskCensus
    return handlers.handleRaw("metrics", () =>
      Effect.map(
        Effect.andThen(census.refresh, PrometheusMetrics.format({ metricNameMapper: prometheusName })),
        (text) => HttpServerResponse.text(text, { contentType })
      ))
  })
).pipe(Layer.provide(TaskCensus.layer))
