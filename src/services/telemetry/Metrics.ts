/**
 * Every metric, defined once; the table in src/runtime/deployment/README.md is generated from `definitions`. Names are
 * OpenTelemetry's where it has one. Labels have few values each: never an id. An update is one lookup and a few additions,
 * cheap enough for hot paths. Values that can be read on demand are observed when metrics are collected, and never updated.
 */
import { Clock, Context, Effect, type Exit, Metric, type Scope } from "effect"

type Unit = "seconds" | "bytes" | "ratio"

interface Definition<Labels extends ReadonlyArray<string>> {
  readonly name: string
  readonly kind: "counter" | "gauge" | "histogram"
  /** Absent for a number of things. */
  readonly unit?: Unit
  readonly meaning: string
  readonly labels: Labels
  readonly former?: Former
}

/** The name before a rename. It is exported as well for one version, and described as deprecated. */
interface Former {
  readonly name: string
  /** Former label values by their present ones, where they differ. */
  readonly values?: Readonly<Record<string, string>>
}

type Values<Labels extends ReadonlyArray<string>> = { readonly [Index in keyof Labels]: string }

/** Series belong to the process, so an empty context is enough to update them. */
const context = Context.empty()

const httpSeconds = [0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10]
const latenessSeconds = [0.005, 0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 15, 60, 300]

export const definitions: Array<Definition<ReadonlyArray<string>>> = []

/**
 * A metric with one series for each set of label values, created at its first use; two series while it has a former
 * name.
 */
const family = <const Labels extends ReadonlyArray<string>>(
  definition: Definition<Labels>,
  make: (
    name: string,
    options: { readonly description: string; readonly attributes: Record<string, string> }
  ) => Metric.Metric<number, unknown>
) => {
  const { former, ...own } = definition
  const { labels, meaning, name, unit } = own
  const deprecation = `deprecated, removed in the next version: use ${name}`
  definitions.push(definition)
  if (former !== undefined) definitions.push({ ...own, name: former.name, meaning: deprecation })
  const isPlain = unit === undefined || unit === "ratio"
  const known = new Map<string, ReadonlyArray<Metric.Metric<number, unknown>>>()

  const attributesOf = (values: ReadonlyArray<string>): Record<string, string> => ({
    ...Object.fromEntries(labels.map((label, index) => [label, values[index] ?? ""])),
    ...(isPlain ? {} : { unit })
  })
  const makeAll = (values: ReadonlyArray<string>) => {
    const present = make(name, { description: meaning, attributes: attributesOf(values) })
    if (former === undefined) return [present]
    const formerValues = values.map((value) => former.values?.[value] ?? value)
    return [present, make(former.name, { description: deprecation, attributes: attributesOf(formerValues) })]
  }

  return (values: Values<Labels>): ReadonlyArray<Metric.Metric<number, unknown>> => {
    const key = values.join("\n")
    let series = known.get(key)
    if (series === undefined) {
      series = makeAll(values)
      known.set(key, series)
    }
    return series
  }
}

/** Updates each series: one, or two while the metric has a former name. */
const updateAll = (series: ReadonlyArray<Metric.Metric<number, unknown>>, value: number): void => {
  for (const one of series) one.updateUnsafe(value, context)
}

const counter = <const Labels extends ReadonlyArray<string>>(definition: Omit<Definition<Labels>, "kind">) => {
  const of = family(
    { ...definition, kind: "counter" },
    (name, options) => Metric.counter(name, { ...options, incremental: true })
  )
  return {
    add: (count: number, ...values: Values<Labels>): void => updateAll(of(values), count)
  }
}

const histogram = <const Labels extends ReadonlyArray<string>>(
  definition: Omit<Definition<Labels>, "kind" | "unit">,
  boundaries: ReadonlyArray<number>
) => {
  const of = family(
    { ...definition, kind: "histogram", unit: "seconds" },
    (name, options) => Metric.histogram(name, { ...options, boundaries })
  )
  return {
    record: (seconds: number, ...values: Values<Labels>): void => updateAll(of(values), seconds)
  }
}

/** Reads a value whenever metrics are collected, while the scope is open. */
const observed = (
  series: ReadonlyArray<Metric.Metric<number, unknown>>,
  state: () => unknown
): Effect.Effect<void, never, Scope.Scope> =>
  Effect.forEach(series, (one) =>
    Effect.acquireRelease(
      Effect.sync(() => Metric.registerUnsafe(one, context, { get: state, update: () => {}, modify: () => {} })),
      (registration) => Effect.sync(registration.remove)
    ), { discard: true })

const gauge = <const Labels extends ReadonlyArray<string>>(definition: Omit<Definition<Labels>, "kind">) => {
  const of = family({ ...definition, kind: "gauge" }, Metric.gauge)
  return {
    set: (value: number, ...values: Values<Labels>): void => updateAll(of(values), value),
    observe: (read: () => number, ...values: Values<Labels>) => observed(of(values), () => ({ value: read() }))
  }
}

/** A counter whose value is counted elsewhere. */
const total = <const Labels extends ReadonlyArray<string>>(definition: Omit<Definition<Labels>, "kind">) => {
  const of = family({ ...definition, kind: "counter" }, Metric.counter)
  return {
    observe: (read: () => number, ...values: Values<Labels>) =>
      observed(of(values), () => ({ count: read(), incremental: true }))
  }
}

/** Records the duration of an effect, whether it succeeds, fails or is interrupted. */
export const timed = <A, E, R>(
  effect: Effect.Effect<A, E, R>,
  record: (seconds: number, exit: Exit.Exit<A, E>) => void
): Effect.Effect<A, E, R> =>
  Effect.withFiber((fiber) => {
    const clock = fiber.getRef(Clock.Clock)
    const startedAt = clock.monotonicTimeNanosUnsafe()
    return Effect.onExitPrimitive(effect, (exit) => {
      record(Number(clock.monotonicTimeNanosUnsafe() - startedAt) / 1e9, exit)
      return undefined
    })
  })

export const httpRequests = histogram({
  name: "http.server.request.duration",
  meaning: "time from a request to its response headers; the waiting time of long polls is included",
  labels: ["http.request.method", "http.route", "http.response.status_code"]
}, httpSeconds)

export const transitions = counter({
  name: "task.transitions",
  meaning: "task events committed by this node, by event and resulting status",
  labels: ["event", "status"]
})

export const deadlineLateness = histogram({
  name: "task.deadline.lateness",
  meaning: "time from a deadline to the commit of its event",
  labels: ["event"]
}, latenessSeconds)

export const actors = gauge({
  name: "task.active",
  former: { name: "task.actors" },
  meaning: "live tasks that this node owns",
  labels: []
})

export const suspectedTasks = gauge({
  name: "task.suspected",
  meaning: "tasks that wait for a separate retry, because a node stopped soon after it dispatched them",
  labels: []
})

export const liveTasks = gauge({
  name: "task.live",
  meaning: "live tasks in the database, of all nodes; refreshed at most every 30 s",
  labels: ["status"]
})

export const deadlineOverdue = gauge({
  name: "task.deadline.overdue",
  former: { name: "task.oldest_due" },
  unit: "seconds",
  meaning: "time since the earliest deadline of all live tasks passed, 0 when none has; refreshed at most every 30 s",
  labels: []
})

export const coreCalls = histogram({
  name: "core.call.duration",
  meaning: "duration of calls to the processing core",
  labels: ["operation", "outcome"]
}, httpSeconds)

export const webhookAttempts = histogram({
  name: "webhook.attempt.duration",
  meaning: "duration of webhook attempts, by outcome",
  labels: ["outcome"]
}, [...httpSeconds, 15])

export const webhookLateness = histogram({
  name: "webhook.attempt.lateness",
  meaning: "time from the moment an attempt was due to its start",
  labels: []
}, latenessSeconds)

export const webhooksAbandoned = counter({
  name: "webhook.attempts.abandoned",
  former: { name: "webhook.attempts.lost" },
  meaning: "attempts whose node stopped before it knew the outcome, counted when the next attempt begins",
  labels: []
})

export const clusterNotifications = counter({
  name: "cluster.notifications",
  former: { name: "node.hints", values: { sent: "told", received: "heard" } },
  meaning: "task changes sent to other nodes and received from them, by direction (sent, received)",
  labels: ["direction"]
})

export const shardReassignments = counter({
  name: "cluster.shard.reassignments",
  former: { name: "cluster.shard.moves" },
  meaning: "shards that this node gained or lost, by direction (gained, lost)",
  labels: ["direction"]
})

export const revocationAge = gauge({
  name: "revocation.sync.age",
  unit: "seconds",
  meaning: "time since this node last read the revoked tokens; from 30 s on it checks each token in the database",
  labels: []
})

export const clockOffset = gauge({
  name: "clock.offset",
  unit: "seconds",
  meaning: "the machine's wall clock minus the database's clock, which the node follows",
  labels: []
})

export const clockUncertainty = gauge({
  name: "clock.uncertainty",
  unit: "seconds",
  meaning: "maximum difference between the node's time and the database's clock; above 1 s the node is not ready",
  labels: []
})

export const clockSampleAge = gauge({
  name: "clock.sample.age",
  unit: "seconds",
  meaning: "age of the current sample of the database's clock",
  labels: []
})

export const databaseConnections = gauge({
  name: "db.client.connection.count",
  meaning: "open connections to the database",
  labels: []
})

export const databaseAvailable = gauge({
  name: "db.client.available",
  meaning: "1 while the database responds to this node, 0 during an outage",
  labels: []
})

export const databaseWaiting = gauge({
  name: "db.client.connection.pending_requests",
  meaning: "statements that wait for a database connection",
  labels: []
})

const eventLoopDelay = (statistic: string, what: string) =>
  gauge({
    name: `nodejs.eventloop.delay.${statistic}`,
    unit: "seconds",
    meaning: `${what} delay that the event loop adds to a timer, over the last 10 s or since the last collection`,
    labels: []
  })
export const eventLoopDelays = {
  p50: eventLoopDelay("p50", "median"),
  p99: eventLoopDelay("p99", "99th percentile"),
  max: eventLoopDelay("max", "maximum")
}

export const eventLoopUtilization = gauge({
  name: "nodejs.eventloop.utilization",
  unit: "ratio",
  meaning: "share of time that the event loop was busy, over the same period",
  labels: []
})

export const memory = gauge({
  name: "process.memory.usage",
  unit: "bytes",
  meaning: "physical memory of the process",
  labels: []
})

export const heap = gauge({ name: "v8js.memory.heap.used", unit: "bytes", meaning: "used heap memory", labels: [] })

export const cpu = total({
  name: "process.cpu.time",
  unit: "seconds",
  meaning: "processor time of the process",
  labels: ["cpu.mode"]
})

const suffixes = new Map(definitions.map(({ kind, name, unit }) => [
  name,
  `${unit === undefined ? "" : `_${unit}`}${kind === "counter" ? "_total" : ""}`
]))

/** The Prometheus name of a metric: with its unit, and `_total` for counters. */
export const prometheusName = (name: string): string => name.replaceAll(".", "_") + (suffixes.get(name) ?? "")
