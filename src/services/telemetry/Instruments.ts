/**
 * Kinds of metrics. Names are OpenTelemetry's where it has one. Labels have few values each: never an id. An update is one lookup
 * and a few additions, cheap enough for hot paths. Values that can be read on demand are observed when metrics are collected.
 */
import { Context, Effect, Metric, type Scope } from "effect"

type Unit = "seconds" | "bytes" | "ratio"

export interface Definition<Labels extends ReadonlyArray<string>> {
  readonly name: string
  readonly kind: "counter" | "gauge" | "histogram"
  /** Absent for a number of things. */
  readonly unit?: Unit
  readonly meaning: string
  readonly labels: Labels
  /** Label values of the series that exist from the start, so that the first event of an alert is an increase from zero. */
  readonly initial?: ReadonlyArray<Values<Labels>>
}

type Values<Labels extends ReadonlyArray<string>> = { readonly [Index in keyof Labels]: string }

/** Series belong to the process, so an empty context is enough to update them. */
const context = Context.empty()

export const definitions: Array<Omit<Definition<ReadonlyArray<string>>, "initial">> = []

const initializers: Array<() => void> = []

/** Creates the series that exist from the start. */
export const initialize = Effect.sync(() => initializers.forEach((initializer) => initializer()))

/** A metric with one series for each set of label values, created at its first use. */
const family = <const Labels extends ReadonlyArray<string>, State>(
  definition: Definition<Labels>,
  make: (
    name: string,
    options: { readonly description: string; readonly attributes: Record<string, string> }
  ) => Metric.Metric<number, State>
) => {
  const { initial = [], ...described } = definition
  const { labels, meaning, name, unit } = described
  definitions.push(described)
  const isPlain = unit === undefined || unit === "ratio"
  const known = new Map<string, Metric.Metric<number, State>>()

  const attributesOf = (values: ReadonlyArray<string>): Record<string, string> => ({
    ...Object.fromEntries(labels.map((label, index) => [label, values[index] ?? ""])),
    ...(isPlain ? {} : { unit })
  })

  const seriesOf = (values: Values<Labels>) => {
    const key = values.join("\n")
    let series = known.get(key)
    if (series === undefined) {
      series = make(name, { description: meaning, attributes: attributesOf(values) })
      known.set(key, series)
    }
    return series
  }
  initializers.push(() => {
    // Reading a series creates it.
    for (const values of initial) seriesOf(values).valueUnsafe(context)
  })
  /** Does not create the series, unlike a read of its value. */
  const find = (values: Values<Labels>) => known.get(values.join("\n"))
  return Object.assign(seriesOf, { find })
}

export const counter = <const Labels extends ReadonlyArray<string>>(definition: Omit<Definition<Labels>, "kind">) => {
  const of = family(
    { ...definition, kind: "counter" },
    (name, options) => Metric.counter(name, { ...options, incremental: true })
  )
  return {
    add: (count: number, ...values: Values<Labels>): void => of(values).updateUnsafe(count, context),
    /** The count of this process. */
    count: (...values: Values<Labels>): number => Number(of.find(values)?.valueUnsafe(context).count ?? 0)
  }
}

export const histogram = <const Labels extends ReadonlyArray<string>>(
  definition: Omit<Definition<Labels>, "kind" | "unit">,
  boundaries: ReadonlyArray<number>
) => {
  const of = family(
    { ...definition, kind: "histogram", unit: "seconds" },
    (name, options) => Metric.histogram(name, { ...options, boundaries })
  )
  return {
    record: (seconds: number, ...values: Values<Labels>): void => of(values).updateUnsafe(seconds, context),
    /** The number of records of this process. */
    count: (...values: Values<Labels>): number => of.find(values)?.valueUnsafe(context).count ?? 0
  }
}

/** Reads a value whenever metrics are collected, while the scope is open. */
const observed = (
  series: Metric.Metric<number, unknown>,
  state: () => unknown
): Effect.Effect<void, never, Scope.Scope> =>
  Effect.asVoid(Effect.acquireRelease(
    Effect.sync(() => Metric.registerUnsafe(series, context, { get: state, update: () => {}, modify: () => {} })),
    (registration) => Effect.sync(registration.remove)
  ))

export const gauge = <const Labels extends ReadonlyArray<string>>(definition: Omit<Definition<Labels>, "kind">) => {
  const of = family({ ...definition, kind: "gauge" }, (name, options) => Metric.gauge(name, options))
  return {
    set: (value: number, ...values: Values<Labels>): void => of(values).updateUnsafe(value, context),
    observe: (read: () => number, ...values: Values<Labels>) => observed(of(values), () => ({ value: read() }))
  }
}

/** A counter whose value is counted elsewhere. */
export const total = <const Labels extends ReadonlyArray<string>>(definition: Omit<Definition<Labels>, "kind">) => {
  const of = family({ ...definition, kind: "counter" }, (name, options) => Metric.counter(name, options))
  return {
    observe: (read: () => number, ...values: Values<Labels>) =>
      observed(of(values), () => ({ count: read(), incremental: true }))
  }
}

/** The Prometheus name of a metric: with its unit, and `_total` for counters. */
export const prometheusName = (name: string): string => {
  const { kind, unit } = definitions.find((definition) => definition.name === name) ?? {}
  return `${name.replaceAll(".", "_")}${unit === undefined ? "" : `_${unit}`}${kind === "counter" ? "_total" : ""}`
}
