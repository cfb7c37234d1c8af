/** The supported OpenTelemetry variables: endpoint, resource and sampling. */
import { Config, Duration, Effect, Redacted, Schema } from "effect"
import type { SettingsReader } from "../config/SettingsReader.ts"
import { type Sampler, samplers } from "./Sampler.ts"

export interface Telemetry {
  /** Base URL of the collector, without a trailing slash. */
  readonly endpoint: string
  readonly protocol: "http/protobuf" | "http/json"
  readonly headers: Redacted.Redacted<Readonly<Record<string, string>>>
  /** Resource attributes, such as `service.name`. */
  readonly attributes: Readonly<Record<string, string>>
  readonly sampler: Sampler
  /** Time limit of one export. */
  readonly timeout: Duration.Duration
  readonly metricsInterval: Duration.Duration
}

export const settings = [
  {
    names: ["OTEL_EXPORTER_OTLP_ENDPOINT"],
    default: "unset",
    meaning: "base URL of the collector that receives traces, metrics and logs by OTLP over HTTP"
  },
  {
    names: ["OTEL_EXPORTER_OTLP_PROTOCOL", "OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_TIMEOUT"],
    default: "`http/protobuf`, none, `10000`",
    meaning:
      "`http/protobuf` or `http/json`; comma-separated `name=value` headers of each export; timeout of an export in milliseconds"
  },
  {
    names: ["OTEL_SERVICE_NAME", "OTEL_RESOURCE_ATTRIBUTES"],
    default: "`async-task-service`, none",
    meaning: "service name; resource attributes as comma-separated `name=value`"
  },
  {
    names: ["OTEL_TRACES_SAMPLER", "OTEL_TRACES_SAMPLER_ARG"],
    default: "`parentbased_always_on`, `1`",
    meaning:
      "sampler: `always_on`, `always_off` or `traceidratio`, optionally with the prefix `parentbased_`; the ratio from 0 to 1"
  },
  {
    names: ["OTEL_METRIC_EXPORT_INTERVAL"],
    default: "`10000`",
    meaning: "interval between exports of metrics in milliseconds"
  }
]

const Ratio = Schema.FiniteFromString.check(Schema.isBetween({ minimum: 0, maximum: 1 }))

/** Parses percent-encoded `name=value` pairs. Values may be secret, so errors do not contain them. */
const pairsOf = (text: string): Readonly<Record<string, string>> =>
  Object.fromEntries(
    text.split(",").filter((pair) => pair.trim() !== "").map((pair) => {
      const [name = "", ...value] = pair.split("=").map((part) => decodeURIComponent(part.trim()))
      if (name === "" || value.length === 0) throw new Error("expected comma-separated name=value pairs")
      return [name, value.join("=")]
    })
  )

/** Undefined when no endpoint is set. */
export const load = Effect.fnUntraced(function*({ count, derive, env, read, url }: SettingsReader) {
  const pairs = (name: string) => derive(name, () => pairsOf(env[name] ?? ""), {})

  const endpoint = url("OTEL_EXPORTER_OTLP_ENDPOINT")
  const serviceName = env["OTEL_SERVICE_NAME"]
  const telemetry: Omit<Telemetry, "endpoint"> = {
    protocol: yield* read(
      "OTEL_EXPORTER_OTLP_PROTOCOL",
      (name) => Config.Literals(["http/protobuf", "http/json"], name),
      "http/protobuf"
    ),
    headers: Redacted.make(pairs("OTEL_EXPORTER_OTLP_HEADERS")),
    attributes: {
      ...pairs("OTEL_RESOURCE_ATTRIBUTES"),
      ...(serviceName === undefined ? {} : { "service.name": serviceName })
    },
    sampler: {
      name: yield* read(
        "OTEL_TRACES_SAMPLER",
        (name) => Config.Literals(samplers, name),
        "parentbased_always_on"
      ),
      ratio: yield* read("OTEL_TRACES_SAMPLER_ARG", (name) => Config.schema(Ratio, name), 1)
    },
    timeout: Duration.millis(yield* count("OTEL_EXPORTER_OTLP_TIMEOUT", 10_000, 1, 60_000)),
    metricsInterval: Duration.millis(yield* count("OTEL_METRIC_EXPORT_INTERVAL", 10_000, 100, 3_600_000))
  }
  return endpoint === undefined ? undefined : { ...telemetry, endpoint }
})
