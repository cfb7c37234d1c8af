/** A collector of OTLP in JSON on a real socket: what it was sent, found by name. */
import { ScriptedService } from "./ScriptedService.ts"

interface KeyValue {
  readonly key: string
  readonly value: Readonly<Record<string, unknown>>
}

type Attributes = Readonly<Record<string, unknown>>

export interface Span {
  readonly traceId: string
  readonly spanId: string
  readonly parentSpanId?: string
  readonly name: string
  readonly kind: number
  readonly attributes: Attributes
  readonly links: ReadonlyArray<{ readonly traceId: string; readonly spanId: string }>
}

export interface Point {
  readonly attributes: Attributes
  readonly count?: number
  readonly asDouble?: number
}

export interface LogRecord {
  readonly body: string
  readonly traceId?: string
  readonly attributes: Attributes
}

const attributesOf = (attributes: ReadonlyArray<KeyValue>): Attributes =>
  Object.fromEntries(attributes.map(({ key, value }) => [key, Object.values(value)[0]]))

export class Collector extends ScriptedService {
  // oxlint-disable-next-line typescript/no-explicit-any -- OTLP as it comes
  #sent(signal: string): ReadonlyArray<any> {
    return this.received.filter(({ path }) => path === `/v1/${signal}`).map(({ body }) => JSON.parse(body))
  }

  get spans(): ReadonlyArray<Span> {
    return this.#sent("traces").flatMap(({ resourceSpans }) => resourceSpans[0].scopeSpans[0].spans).map((span) => ({
      ...span,
      attributes: attributesOf(span.attributes)
    }))
  }

  get logs(): ReadonlyArray<LogRecord> {
    return this.#sent("logs").flatMap(({ resourceLogs }) => resourceLogs[0].scopeLogs[0].logRecords).map((record) => ({
      ...record,
      body: record.body.stringValue,
      attributes: attributesOf(record.attributes)
    }))
  }

  /** The points of a metric in the last export, with its unit. */
  metric(name: string): { readonly unit: string; readonly points: ReadonlyArray<Point> } | undefined {
    const metrics = this.#sent("metrics").at(-1)?.resourceMetrics[0].scopeMetrics[0].metrics ?? []
    // oxlint-disable-next-line typescript/no-explicit-any -- OTLP as it comes
    const found = metrics.find((metric: any) => metric.name === name)
    if (found === undefined) return undefined
    const points: ReadonlyArray<Point & { readonly attributes: ReadonlyArray<KeyValue> }> =
      (found.sum ?? found.gauge ?? found.histogram).dataPoints
    return {
      unit: found.unit,
      points: points.map((point) => ({ ...point, attributes: attributesOf(point.attributes) }))
    }
  }

  resource(signal: "traces" | "metrics" | "logs"): Attributes {
    const first = this.#sent(signal)[0]
    return attributesOf(Object.values<ReadonlyArray<{ readonly resource: { readonly attributes: ReadonlyArray<KeyValue> } }>>(first)[0]![0]!.resource.attributes)
  }
}
