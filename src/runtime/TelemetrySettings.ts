/** OpenTelemetry's own variables, as far as they are heeded: where telemetry goes, whose it is, and how much of it. */
import { Config, Duration, Effect, Redacted, Schema } from "effect"
import { type Sampler, samplers } from "./Sampler.ts"

export interface Telemetry {
  /** Base URL of the collector, without a trailing slash. */
  readonly endpoint: string
  readonly protocol: "http/protobuf" | "http/json"
  readonly headers: Redacted.Redacted<Readonly<Record<string, string>>>
  /** Of the resource: `service.name` and the like. */
  readonly attributes: Readonly<Record<string, string>>
  readonly sampler: Sampler
  /** One clock over each export. */
  readonly timeout: Duration.Duration
  readonly metricsInterval: Duration.Duration
}

export const settings = [
  {
    names: ["OTEL_EXPORTER_OTLP_ENDPOINT"],
    default: "unset",
    meaning: "base URL of a collector that takes traces, metrics and logs by OTLP over HTTP"
  },
  {
    names: ["OTEL_EXPORTER_OTLP_PROTOCOL", "OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_TIMEOUT"],
    default: "`http/protobuf`, none, `10000`",
    meaning: "or `http/json`; comma list of `name=value` that goes with each export; milliseconds that one may take"
  },
  {
    names: ["OTEL_SERVICE_NAME", "OTEL_RESOURCE_ATTRIBUTES"],
    default: "`async-task-service`, none",
    meaning: "whose telemetry it is; attributes as a comma list of `name=value`"
  },
  {
    names: ["OTEL_TRACES_SAMPLER", "OTEL_TRACES_SAMPLER_ARG"],
    default: "`parentbased_always_on`, `1`",
    meaning:
      "which traces are kept: `always_on`, `always_off` or `traceidratio`, with `parentbased_` before it or without; the ratio"
  },
  { names: ["OTEL_METRIC_EXPORT_INTERVAL"], default: "`10000`", meaning: "milliseconds between two exports of metrics" }
]

/** How `AppConfig` reads a variable; what is wrong with it is collected there. */
interface Reader {
  readonly env: Readonly<Record<string, string>>
  readonly read: <A>(name: string, config: Config.Config<A>, absent: A) => Effect.Effect<A>
  readonly count: (name: string, absent: number, minimum: number, maximum: number) => Effect.Effect<number>
  readonly derive: <A>(name: string, thunk: () => A) => A | undefined
  readonly url: (name: string) => string | undefined
}

const Ratio = Schema.FiniteFromString.check(Schema.isBetween({ minimum: 0, maximum: 1 }))

/** Names and values as in a URL's query; a value may be secret, and is in no message. */
const pairsOf = (text: string): Readonly<Record<string, string>> =>
  Object.fromEntries(
    text.split(",").filter((pair) => pair.trim() !== "").map((pair) => {
      const [name = "", ...value] = pair.split("=").map((part) => decodeURIComponent(part.trim()))
      if (name === "" || value.length === 0) throw new Error("expected a comma list of name=value")
      return [name, value.join("=")]
    })
  )

/** Undefined where no one takes it. */
export const load = Effect.fnUntraced(function*({ count, derive, env, read, url }: Reader) {
  const option = <A>(name: string, config: (name: string) => Config.Config<A>, absent: A) =>
    read(name, config(name), absent)
  const pairs = (name: string) => derive(name, () => pairsOf(env[name] ?? "")) ?? {}

  const endpoint = url("OTEL_EXPORTER_OTLP_ENDPOINT")
  const serviceName = env["OTEL_SERVICE_NAME"]
  const telemetry: Omit<Telemetry, "endpoint"> = {
    protocol: yield* option(
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
      name: yield* option(
        "OTEL_TRACES_SAMPLER",
        (name) => Config.Literals(samplers, name),
        "parentbased_always_on"
      ),
      ratio: yield* option("OTEL_TRACES_SAMPLER_ARG", (name) => Config.schema(Ratio, name), 1)
    },
    timeout: Duration.millis(yield* count("OTEL_EXPORTER_OTLP_TIMEOUT", 10_000, 1, 60_000)),
    metricsInterval: Duration.millis(yield* count("OTEL_METRIC_EXPORT_INTERVAL", 10_000, 100, 3_600_000))
  }
  return endpoint === undefined ? undefined : { ...telemetry, endpoint }
})
