/** The supported OpenTelemetry variables: endpoint, resource and sampling. */
import { Config, Duration, Redacted, Schema } from "effect"
import * as Setting from "../../services/settings/Setting.ts"
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

export const settings = {
  otlpEndpoint: Setting.optional(Setting.url, {
    name: "OTEL_EXPORTER_OTLP_ENDPOINT",
    unset: "unset",
    meaning: "base URL of the collector, by OTLP over HTTP"
  }),
  otlpProtocol: Setting.setting((name) => Config.Literals(["http/protobuf", "http/json"], name), {
    name: "OTEL_EXPORTER_OTLP_PROTOCOL",
    default: "http/protobuf",
    meaning: "`http/protobuf` or `http/json`"
  }),
  otlpHeaders: Setting.setting(Setting.parsed((text) => Redacted.make(pairsOf(text))), {
    name: "OTEL_EXPORTER_OTLP_HEADERS",
    default: "",
    meaning: "`name=value` headers of each export"
  }),
  otlpTimeout: Setting.integer(1, 60_000, {
    name: "OTEL_EXPORTER_OTLP_TIMEOUT",
    default: "10000",
    meaning: "timeout of an export in milliseconds"
  }),
  serviceName: Setting.optional(Config.String, {
    name: "OTEL_SERVICE_NAME",
    unset: "`async-task-service`",
    meaning: "service name"
  }),
  resourceAttributes: Setting.setting(Setting.parsed(pairsOf), {
    name: "OTEL_RESOURCE_ATTRIBUTES",
    default: "",
    meaning: "resource attributes as `name=value`"
  }),
  tracesSampler: Setting.setting((name) => Config.Literals(samplers, name), {
    name: "OTEL_TRACES_SAMPLER",
    default: "parentbased_always_on",
    meaning: "sampler: `always_on`, `always_off` or `traceidratio`, optionally with the prefix `parentbased_`"
  }),
  tracesRatio: Setting.setting((name) => Config.schema(Ratio, name), {
    name: "OTEL_TRACES_SAMPLER_ARG",
    default: "1",
    meaning: "the ratio of `traceidratio`",
    bounds: ["0", "1"]
  }),
  metricsInterval: Setting.integer(100, 3_600_000, {
    name: "OTEL_METRIC_EXPORT_INTERVAL",
    default: "10000",
    meaning: "interval between exports of metrics in milliseconds"
  })
}

/** Undefined when no endpoint is set. */
export const telemetryOf = (values: Setting.Values<typeof settings>): Telemetry | undefined => {
  const { otlpEndpoint: endpoint, serviceName } = values
  return endpoint === undefined ? undefined : {
    endpoint,
    protocol: values.otlpProtocol,
    headers: values.otlpHeaders,
    attributes: { ...values.resourceAttributes, ...(serviceName === undefined ? {} : { "service.name": serviceName }) },
    sampler: { name: values.tracesSampler, ratio: values.tracesRatio },
    timeout: Duration.millis(values.otlpTimeout),
    metricsInterval: Duration.millis(values.metricsInterval)
  }
}
