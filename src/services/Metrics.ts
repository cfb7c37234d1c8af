/**
 * Every metric, defined once; README's table is printed from `definitions`. Names are OpenTelemetry's where it has one. Labels
 * have few values each: never an id. An update is one lookup and a few additions, so hot paths may make them; what can be
 * read when someone looks is not updated at all.
 */
import { Clock, Context, Effect, type Exit, Metric, type Scope } from "effect"

type Unit = "seconds" | "bytes" | "ratio"

interface Definition<Labels extends ReadonlyArray<string>> {
  readonly name: string
  readonly kind: "counter" | "gauge" | "histogram"
  /** None for what is counted. */
  readonly unit?: Unit
  readonly meaning: string
  readonly labels: Labels
}

type Values<Labels extends ReadonlyArray<string>> = { readonly [Index in keyof Labels]: string }

/** Series are the process's own, whoever updates them. */
const context = Context.empty()

const httpSeconds = [0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10]
const latenessSeconds = [0.005, 0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 15, 60, 300]

export const definitions: Array<Definition<ReadonlyArray<string>>> = []

/** A metric with one series for each set of label values, made when it is first seen. */
const family = <const Labels extends ReadonlyArray<string>>(
  definition: Definition<Labels>,
  make: (options: { readonly description: string; readonly attributes: Record<string, string> }) => Metric.Metric<
    number,
    unknown
  >
) => {
  definitions.push(definition)
  const { labels, meaning, unit } = definition
  const known = new Map<string, Metric.Metric<number, unknown>>()
  return (values: Values<Labels>): Metric.Metric<number, unknown> => {
    const key = values.join("\n")
    let series = known.get(key)
    if (series === undefined) {
      const attributes = Object.fromEntries(labels.map((label, index) => [label, values[index] ?? ""]))
      const isPlain = unit === undefined || unit === "ratio"
      series = make({ description: meaning, attributes: isPlain ? attributes : { ...attributes, unit } })
      known.set(key, series)
    }
    return series
  }
}

const counter = <const Labels extends ReadonlyArray<string>>(definition: Omit<Definition<Labels>, "kind">) => {
  const of = family(
    { ...definition, kind: "counter" },
    (options) => Metric.counter(definition.name, { ...options, incremental: true })
  )
  return {
    add: (count: number, ...values: Values<Labels>): void => of(values).updateUnsafe(count, context)
  }
}

const histogram = <const Labels extends ReadonlyArray<string>>(
  definition: Omit<Definition<Labels>, "kind" | "unit">,
  boundaries: ReadonlyArray<number>
) => {
  const of = family(
    { ...definition, kind: "histogram", unit: "seconds" },
    (options) => Metric.histogram(definition.name, { ...options, boundaries })
  )
  return {
    record: (seconds: number, ...values: Values<Labels>): void => of(values).updateUnsafe(seconds, context)
  }
}

/** Reads a value when someone looks, for as long as the scope is open. */
const observed = (
  series: Metric.Metric<number, unknown>,
  state: () => unknown
): Effect.Effect<void, never, Scope.Scope> =>
  Effect.acquireRelease(
    Effect.sync(() => Metric.registerUnsafe(series, context, { get: state, update: () => {}, modify: () => {} })),
    (registration) => Effect.sync(registration.remove)
  )

const gauge = <const Labels extends ReadonlyArray<string>>(definition: Omit<Definition<Labels>, "kind">) => {
  const of = family({ ...definition, kind: "gauge" }, (options) => Metric.gauge(definition.name, options))
  return {
    set: (value: number, ...values: Values<Labels>): void => of(values).updateUnsafe(value, context),
    observe: (read: () => number, ...values: Values<Labels>) => observed(of(values), () => ({ value: read() }))
  }
}

/** A counter that something else counts. */
const total = <const Labels extends ReadonlyArray<string>>(definition: Omit<Definition<Labels>, "kind">) => {
  const of = family({ ...definition, kind: "counter" }, (options) => Metric.counter(definition.name, options))
  return {
    observe: (read: () => number, ...values: Values<Labels>) =>
      observed(of(values), () => ({ count: read(), incremental: true }))
  }
}

/** Tells how long an effect took, whichever way it ended. */
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
  meaning: "requests until the head of their answer; long polls count with the time they wait",
  labels: ["http.request.method", "http.route", "http.response.status_code"]
}, httpSeconds)

export const transitions = counter({
  name: "task.transitions",
  meaning: "changes of tasks that this node committed",
  labels: ["event", "status"]
})

export const deadlineLateness = histogram({
  name: "task.deadline.lateness",
  meaning: "how long after its moment a clock's event was committed",
  labels: ["event"]
}, latenessSeconds)

export const actors = gauge({ name: "task.actors", meaning: "live tasks that this node drives on", labels: [] })

export const suspectedTasks = gauge({
  name: "task.suspected",
  meaning: "tasks that wait to be tried apart, because a node went away soon after they were offered to the core",
  labels: []
})

export const liveTasks = gauge({
  name: "task.live",
  meaning: "live tasks in the database, of all nodes; looked at every 30 s at most",
  labels: ["status"]
})

export const oldestDue = gauge({
  name: "task.oldest_due",
  unit: "seconds",
  meaning: "how long the first clock of all live tasks has been overdue; looked at every 30 s at most",
  labels: []
})

export const coreCalls = histogram({
  name: "core.call.duration",
  meaning: "calls to the processing core",
  labels: ["operation", "outcome"]
}, httpSeconds)

export const webhookAttempts = histogram({
  name: "webhook.attempt.duration",
  meaning: "attempts to deliver a webhook, by what came of them",
  labels: ["outcome"]
}, [...httpSeconds, 15])

export const webhookLateness = histogram({
  name: "webhook.attempt.lateness",
  meaning: "how long after it was due an attempt began",
  labels: []
}, latenessSeconds)

export const webhooksLost = counter({
  name: "webhook.attempts.lost",
  meaning: "attempts of a node that ended before it knew the outcome, as found by another attempt",
  labels: []
})

export const hints = counter({
  name: "node.hints",
  meaning: "changes of tasks told to other nodes, and heard of them",
  labels: ["direction"]
})

export const shardMoves = counter({
  name: "cluster.shard.moves",
  meaning: "shards that came to this node, or went, by a new division or a lost lease",
  labels: ["direction"]
})

export const revocationAge = gauge({
  name: "revocation.sync.age",
  unit: "seconds",
  meaning: "since this node last read the revoked tokens; from 30 s on it asks for each token",
  labels: []
})

export const clockOffset = gauge({
  name: "clock.offset",
  unit: "seconds",
  meaning: "the machine's wall clock less the database's clock, which the node keeps to",
  labels: []
})

export const clockUncertainty = gauge({
  name: "clock.uncertainty",
  unit: "seconds",
  meaning: "the most that the node's time may differ from the database's clock; over 1 s the node is not ready",
  labels: []
})

export const clockSampleAge = gauge({
  name: "clock.sample.age",
  unit: "seconds",
  meaning: "age of the sample of the database's clock that the node goes by",
  labels: []
})

export const databaseConnections = gauge({
  name: "db.client.connection.count",
  meaning: "open connections to the database",
  labels: []
})

export const databaseAvailable = gauge({
  name: "db.client.available",
  meaning: "1 while the database answers this node, 0 during an outage",
  labels: []
})

export const databaseWaiting = gauge({
  name: "db.client.connection.pending_requests",
  meaning: "statements that wait for a connection to the database",
  labels: []
})

const eventLoopDelay = (statistic: string, what: string) =>
  gauge({
    name: `nodejs.eventloop.delay.${statistic}`,
    unit: "seconds",
    meaning: `${what} of what the event loop adds to a timer, over the last 10 s or since someone last looked`,
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
  meaning: "share of its time that the event loop was busy, over the same span",
  labels: []
})

export const memory = gauge({
  name: "process.memory.usage",
  unit: "bytes",
  meaning: "physical memory of the process",
  labels: []
})

export const heap = gauge({ name: "v8js.memory.heap.used", unit: "bytes", meaning: "used heap", labels: [] })

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

/** Prometheus's name for a metric: with its unit, and `_total` for what only grows. */
export const prometheusName = (name: string): string => name.replaceAll(".", "_") + (suffixes.get(name) ?? "")
