import { assert, describe, it } from "@effect/vitest"
import { Duration, Effect, Redacted } from "effect"
import * as AppConfig from "../../../src/runtime/config/AppConfig.ts"
import { removeDirectory, temporaryDirectory } from "../../kit/directories.ts"

const load = (settings: Readonly<Record<string, string>>) =>
  Effect.acquireUseRelease(
    Effect.sync(temporaryDirectory),
    (directory) => AppConfig.load({ DATA_DIR: directory, ...settings }),
    (directory) => Effect.sync(() => removeDirectory(directory))
  )

describe("telemetry settings", () => {
  it.effect("disable telemetry without an endpoint", () =>
    Effect.gen(function*() {
      assert.isUndefined((yield* load({ OTEL_SERVICE_NAME: "tasks" })).telemetry)
    }))

  it.effect("are read from the OpenTelemetry variables", () =>
    Effect.gen(function*() {
      const { telemetry } = yield* load({
        OTEL_EXPORTER_OTLP_ENDPOINT: "https://collector.example/otlp/",
        OTEL_EXPORTER_OTLP_HEADERS: "authorization=Bearer%20one,x-tenant=two",
        OTEL_SERVICE_NAME: "tasks",
        OTEL_RESOURCE_ATTRIBUTES: "service.name=overridden,service.namespace=ours",
        OTEL_TRACES_SAMPLER: "traceidratio",
        OTEL_TRACES_SAMPLER_ARG: "0.25"
      })
      assert.isDefined(telemetry)
      assert.strictEqual(telemetry.endpoint, "https://collector.example/otlp")
      assert.strictEqual(telemetry.protocol, "http/protobuf")
      assert.deepStrictEqual(Redacted.value(telemetry.headers), { authorization: "Bearer one", "x-tenant": "two" })
      assert.deepStrictEqual(telemetry.attributes, { "service.name": "tasks", "service.namespace": "ours" })
      assert.deepStrictEqual(telemetry.sampler, { name: "traceidratio", ratio: 0.25 })
      assert.strictEqual(Duration.toMillis(telemetry.timeout), 10_000)
    }))

  it.effect("report every invalid variable by name", () =>
    Effect.gen(function*() {
      const wrong = {
        OTEL_EXPORTER_OTLP_ENDPOINT: "ftp://collector.example",
        OTEL_EXPORTER_OTLP_PROTOCOL: "grpc",
        OTEL_EXPORTER_OTLP_HEADERS: "no pair",
        OTEL_EXPORTER_OTLP_TIMEOUT: "soon",
        OTEL_RESOURCE_ATTRIBUTES: "%",
        OTEL_TRACES_SAMPLER: "sometimes",
        OTEL_TRACES_SAMPLER_ARG: "2",
        OTEL_METRIC_EXPORT_INTERVAL: "0"
      }
      const { message } = yield* Effect.flip(load(wrong))
      assert.notInclude(message, "no pair")
      for (const name of Object.keys(wrong)) assert.include(message, `${name}: `)
    }))
})
