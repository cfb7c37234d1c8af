/**
 * Where traces, metrics and logs go: by OTLP where an endpoint is set, and no span is made anywhere where none is. Services
 * know of none of it. A collector that is down, slow or hangs costs its data and nothing else.
 */
import { NodeHttpClient } from "@effect/platform-node"
import { Duration, Effect, Layer, Logger, Redacted, References, Tracer } from "effect"
import { HttpClient, HttpClientError, HttpMiddleware, UrlParams } from "effect/http"
import { OtlpExporter, OtlpLogger, OtlpMetrics, OtlpSerialization, OtlpTracer } from "effect/observability"
import { randomUUID } from "node:crypto"
import * as Routes from "../http/Routes.ts"
import * as Rpc from "../http/Rpc.ts"
import * as TaskTraces from "../services/TaskTraces.ts"
import * as ProcessMetrics from "./ProcessMetrics.ts"
import { sampled } from "./Sampler.ts"
import type { Telemetry } from "./TelemetrySettings.ts"
import { version } from "./Version.ts"

const defaultName = "async-task-service"

/** Exports under way; what comes while a slow collector holds them all is dropped. */
const maxExports = 8

/** For what is not sent yet when the node stops. */
const shutdownTimeout = Duration.seconds(2)

const ownBeginnings = new Set<string>([...Object.values(TaskTraces.names), "core stop"])

/** A request, as `Routes` and `Rpc` name their spans, or what is done about a task; not what nodes say to each other. */
const begins = ({ kind, name }: { readonly kind: Tracer.SpanKind; readonly name: string }) =>
  kind === "server" ? /^[A-Z]+( |$)/.test(name) || name.startsWith(`${Rpc.spanPrefix}.`) : ownBeginnings.has(name)

/** Says once that telemetry is not taken, and once that it is again. */
const layerClient = ({ endpoint, timeout }: Telemetry) =>
  Layer.effect(
    HttpClient.HttpClient,
    Effect.map(HttpClient.HttpClient, (client) => {
      let isTaken = true
      let underWay = 0
      // What comes before the host may be a password.
      const collector = new URL(endpoint).host
      const turn = (taken: boolean, log: Effect.Effect<void>) =>
        Effect.suspend(() => {
          if (isTaken === taken) return Effect.void
          isTaken = taken
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
            orElse: () => Effect.fail(failed(`no answer within ${Duration.format(timeout)}`))
          })
          return Effect.suspend(() => {
            if (underWay >= maxExports) return Effect.fail(failed("too many exports are under way"))
            underWay++
            return Effect.ensuring(bounded, Effect.sync(() => underWay--))
          })
        }),
        HttpClient.filterStatusOk,
        HttpClient.tap(() => turn(true, Effect.logInfo(`telemetry is taken at ${collector} again`))),
        HttpClient.tapError(({ message }) =>
          turn(false, Effect.logWarning(`telemetry is not taken at ${collector}: ${message}`))
        )
      )
    })
  ).pipe(Layer.provide(NodeHttpClient.layerUndici))

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
      (tracer) => sampled(tracer, sampler, begins)
    )
  )
  return Layer.mergeAll(
    layerTracer,
    Layer.effectDiscard(OtlpMetrics.make({ ...options("metrics"), exportInterval: metricsInterval })),
    Logger.layer([OtlpLogger.make(options("logs"))], { mergeWithExisting: true }),
    Layer.succeed(HttpMiddleware.SpanNameGenerator, Routes.spanName),
    Layer.succeed(HttpMiddleware.TracerDisabledWhen, (request) => !Routes.isWorthATrace(request)),
    // Nobody knows what clients put into queries.
    Layer.succeed(UrlParams.CurrentRedactedNames, [/^/])
  ).pipe(
    Layer.provide(OtlpExporter.layerFlusher),
    Layer.provide(protocol === "http/json" ? OtlpSerialization.layerJson : OtlpSerialization.layerProtobuf),
    Layer.provide(layerClient(telemetry))
  )
}

export const layer = (telemetry: Telemetry | undefined) =>
  Layer.merge(
    ProcessMetrics.layer,
    telemetry === undefined ? Layer.succeed(References.TracerEnabled, false) : layerExport(telemetry)
  )
