/** An OTLP/JSON collector on a real socket, with accessors for the received telemetry. */
import { ScriptedService } from "./ScriptedService.ts"

/** Attributes in OTLP's format. */
type KeyValues = ReadonlyArray<{ readonly key: string; readonly value: Readonly<Record<string, unknown>> }>

type Attributes = Readonly<Record<string, unknown>>

export interface Span {
  readonly traceId: string
  readonly spanId: string
  readonly parentSpanId?: string
  readonly name: string
  readonly attributes: Attributes
  readonly links: ReadonlyArray<{ readonly traceId: string; readonly spanId: string }>
}

export interface Metric {
  readonly name: string
  readonly unit: string
  readonly points: ReadonlyArray<
    { readonly attributes: Attributes; readonly count?: number; readonly asDouble?: number }
  >
}

export interface LogRecord {
  readonly message: string
  readonly traceId?: string
  readonly attributes: Attributes
}

const attributesOf = (attributes: KeyValues): Attributes =>
  Object.fromEntries(attributes.map(({ key, value }) => [key, Object.values(value)[0]]))

const withAttributes = <A extends { readonly attributes: KeyValues }>(item: A) => ({
  ...item,
  attributes: attributesOf(item.attributes)
})

export class Collector extends ScriptedService {
  // oxlint-disable-next-line typescript/no-explicit-any -- OTLP as it comes
  #sent(signal: string, resources: string): ReadonlyArray<any> {
    return this.received.filter(({ path }) => path === `/v1/${signal}`).map(({ body }) =>
      JSON.parse(body)[resources][0]
    )
  }

  get spans(): ReadonlyArray<Span> {
    return this.#sent("traces", "resourceSpans").flatMap(({ scopeSpans }) => scopeSpans[0].spans.map(withAttributes))
  }

  spansOf(traceId: string): ReadonlyArray<Span> {
    return this.spans.filter((span) => span.traceId === traceId)
  }

  get logs(): ReadonlyArray<LogRecord> {
    return this.#sent("logs", "resourceLogs").flatMap(({ scopeLogs }) => scopeLogs[0].logRecords.map(withAttributes))
      .map((record) => ({ ...record, message: record.body.stringValue }))
  }

  /** The metrics of the last export. */
  get metrics(): ReadonlyArray<Metric> {
    const [last] = this.#sent("metrics", "resourceMetrics").slice(-1)
    // oxlint-disable-next-line typescript/no-explicit-any -- OTLP as it comes
    return (last?.scopeMetrics[0].metrics ?? []).map((metric: any) => ({
      name: metric.name,
      unit: metric.unit,
      points: (metric.sum ?? metric.gauge ?? metric.histogram).dataPoints.map(withAttributes)
    }))
  }

  /** The resource attributes of the sender. */
  get resource(): Attributes {
    return attributesOf(this.#sent("metrics", "resourceMetrics")[0].resource.attributes)
  }
}
