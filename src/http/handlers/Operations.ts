/** The endpoints for who watches a node: its health and its metrics. */
import { Context, Effect, Layer } from "effect"
import { HttpRouter, HttpServerResponse } from "effect/http"
import { HttpApiBuilder } from "effect/http-api"
import { PrometheusMetrics } from "effect/observability"
import { isFailing, Readiness } from "../../services/operations/Readiness.ts"
import { TaskCensus } from "../../services/operations/TaskCensus.ts"
import { prometheusName } from "../../services/telemetry/Metrics.ts"
import { Audience } from "../Audience.ts"
import { Api } from "../contract/Api.ts"

const alive = HttpServerResponse.jsonUnsafe({ status: "ok" })

/** `/healthz` answers 200 while the process lives, `/readyz` while it can do its work. */
export const layerHealth = HttpRouter.use((router) =>
  Effect.gen(function*() {
    const readiness = yield* Readiness
    yield* router.add("GET", "/healthz", alive)
    yield* router.add(
      "GET",
      "/readyz",
      Effect.map(readiness.checks, (found) => {
        const failing = found.filter(isFailing)
        const warning = found.filter((check) => check.problem !== null && !isFailing(check))
        const textsOf = (some: typeof found) =>
          Object.fromEntries(some.map(({ name, problem }) => [name, problem ?? "ok"]))
        const body = {
          checks: textsOf(found.filter((check) => !warning.includes(check))),
          ...(warning.length === 0 ? {} : { warnings: textsOf(warning) })
        }
        return failing.length === 0
          ? HttpServerResponse.jsonUnsafe({ status: "ok", ...body })
          : HttpServerResponse.jsonUnsafe(
            { message: `Not ready: ${failing.map(({ name }) => name).join(", ")}`, code: "not_ready", ...body },
            { status: 503 }
          )
      })
    )
  })
)

/** Adds the metrics of the other processes that serve the same port, if there are some. */
export const OtherMetrics = Context.Reference<(own: string) => Effect.Effect<string>>(
  "async-task-service/http/handlers/Operations/OtherMetrics",
  { defaultValue: () => Effect.succeed }
)

/** Prometheus's text format. */
const contentType = "text/plain; version=0.0.4; charset=utf-8"

export const layerMetrics = HttpApiBuilder.group(
  Api,
  "operations",
  Effect.fn(function*(handlers) {
    const census = yield* TaskCensus
    const addOthers = yield* OtherMetrics
    const own = Effect.andThen(census.refresh, PrometheusMetrics.format({ metricNameMapper: prometheusName }))
    return handlers.handleRaw("metrics", () =>
      Effect.gen(function*() {
        const text = yield* own
        const isForAnother = (yield* Audience) === "worker"
        return HttpServerResponse.text(isForAnother ? text : yield* addOthers(text), { contentType })
      }))
  })
).pipe(Layer.provide(TaskCensus.layer))
