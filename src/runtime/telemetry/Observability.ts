/**
 * Exports traces, metrics and logs over OTLP when an endpoint is set; otherwise no spans are created. Services do not
 * depend on it. If the collector is down, slow or hangs, only its data is lost.
 */
import { Duration, Effect, Layer, Logger, Redacted, References, Tracer } from "effect"
import { HttpClient, HttpClientError, HttpMiddleware, UrlParams } from "effect/http"
import { OtlpExporter, OtlpLogger, OtlpMetrics, OtlpSerialization, OtlpTracer } from "effect/observability"
import { randomUUID } from "node:crypto"
import * as Routes from "../../http/Routes.ts"
import { spanPrefix } from "../../http/rpc/RpcConnections.ts"
import * as Metrics from "../../services/telemetry/Metrics.ts"
import * as TaskTraces from "../../services/telemetry/TaskTraces.ts"
import { extensions } from "../loadedExtensions.ts"
import * as Outgoing from "../node/Outgoing.ts"
import { version } from "../Version.ts"
import * as ProcessMetrics from "./ProcessMetrics.ts"
import { sampled } from "./Sampler.ts"
import type { Telemetry } from "./TelemetrySettings.ts"

const defaultName = "async-task-service"

/** Maximum number of concurrent exports. Further exports are dropped. */
const maxExports = 8

/** Time limit of the final export when the node stops. */
const shutdownTimeout = Duration.seconds(2)

const taskSpans = new Set<string>([...Object.values(TaskTraces.names), "core stop"])

/** True if a span may start a trace: requests (named by `Routes` and `RpcConnections`) and task work, but not calls between nodes. */
const mayStartTrace = ({ kind, name }: { readonly kind: Tracer.SpanKind; readonly name: string }) =>
  kind === "server" ? /^[A-Z]+( |$)/.test(name) || name.startsWith(`${spanPrefix}.`) : taskSpans.has(name)

/** The HTTP client of the exporter. Logs when exports begin to fail and when they succeed again. */
const layerClient = ({ endpoint, timeout }: Telemetry) =>
  Layer.effect(
    HttpClient.HttpClient,
    Effect.map(HttpClient.HttpClient, (client) => {
      let isHealthy = true
      let inFlight = 0
      // The host only: the URL may contain a password.
      const collector = new URL(endpoint).host
      const onChange = (healthy: boolean, log: Effect.Effect<void>) =>
        Effect.suspend(() => {
          if (isHealthy === healthy) return Effect.void
          isHealthy = healthy
          return log
        })
      return client.pipe(
        HttpClient.transform((effect, request) => {
          const failed = (description: string) =>
            new HttpClientError.HttpClientError({
              reason: new HttpClientError.TransportError({ request, description })
            })
          const bounded = Effect.timeoutOrElse(effect, {
            duration: timeout,
            orElse: () => Effect.fail(failed(`no response within ${Duration.format(timeout)}`))
          })
          return Effect.suspend(() => {
            if (inFlight >= maxExports) return Effect.fail(failed("too many concurrent exports"))
            inFlight++
            return Effect.ensuring(bounded, Effect.sync(() => inFlight--))
          })
        }),
        HttpClient.filterStatusOk,
        HttpClient.tap(() => onChange(true, Effect.logInfo(`telemetry export to ${collector} succeeds again`))),
        HttpClient.tapError(({ message }) =>
          onChange(false, Effect.logWarning(`telemetry export to ${collector} fails: ${message}`))
        )
      )
    })
  ).pipe(Layer.provide(Outgoing.layer))

const layerExport = (telemetry: Telemetry) => {
  const { attributes, headers, metricsInterval, protocol, sampler } = telemetry
  const instance = randomUUID()
  const options = (signal: "traces" | "metrics" | "logs") => ({
    url: `${telemetry.endpoint}/v1/${signal}`,
    headers: Redacted.value(headers),
    shutdownTimeout,
    resource: {
      serviceName: attributes["service.name"] ?? defaultName,
      serviceVersion: attributes["service.version"] ?? version,
      attributes: { "service.instance.id": instance, ...attributes }
    }
  })
  const layerTracer = Layer.effect(
    Tracer.Tracer,
    Effect.map(
      OtlpTracer.make(options("traces")),
      (tracer) => sampled(tracer, sampler, mayStartTrace)
    )
  )
  return Layer.mergeAll(
    layerTracer,
    Layer.effectDiscard(OtlpMetrics.make({ ...options("metrics"), exportInterval: metricsInterval })),
    Logger.layer([OtlpLogger.make(options("logs"))], { mergeWithExisting: true }),
    Layer.succeed(HttpMiddleware.SpanNameGenerator, Routes.spanNames(extensions.map(({ routes }) => routes))),
    Layer.succeed(HttpMiddleware.TracerDisabledWhen, (request) => !Routes.isWorthATrace(request)),
    // Redact all query parameters: clients may put secrets into them.
    Layer.succeed(UrlParams.CurrentRedactedNames, [/^/])
  ).pipe(
    Layer.provide(OtlpExporter.layerFlusher),
    Layer.provide(protocol === "http/json" ? OtlpSerialization.layerJson : OtlpSerialization.layerProtobuf),
    Layer.provide(layerClient(telemetry))
  )
}

/** Without propagation too: the HTTP client would send the ids of spans that do not exist. */
const layerOff = Layer.merge(
  Layer.succeed(References.TracerEnabled, false),
  Layer.succeed(HttpClient.TracerPropagationEnabled, false)
)

export const layer = (telemetry: Telemetry | undefined) =>
  Layer.mergeAll(
    Layer.effectDiscard(Metrics.initialize),
    ProcessMetrics.layer,
    telemetry === undefined ? layerOff : layerExport(telemetry)
  )
