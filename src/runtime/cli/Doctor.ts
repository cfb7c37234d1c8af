/** The command `doctor`: checks the settings and, from this machine, everything that the service depends on. */
import { PgClient } from "@effect/sql-pg"
import { Clock, DateTime, Duration, Effect, Option, type Redacted, Result, Schema } from "effect"
import { HttpClient, HttpClientRequest, HttpClientResponse } from "effect/http"
import { SqlClient } from "effect/sql"
import { availableParallelism } from "node:os"
import * as ClockSync from "../../services/operations/ClockSync.ts"
import { prometheusName } from "../../services/telemetry/Metrics.ts"
import { rootCauseMessage } from "../../services/telemetry/RootCause.ts"
import { machineClocks } from "../../services/timing/NodeClock.ts"
import * as Addresses from "../config/Addresses.ts"
import * as AppConfig from "../config/AppConfig.ts"
import * as Outgoing from "../node/Outgoing.ts"
import * as Proxies from "../node/Proxies.ts"
import * as Database from "../postgres/Database.ts"
import type { DatabaseUnusable } from "../postgres/DatabaseExamination.ts"
import { failed, findInternalToken, internalUrl, print } from "./Root.ts"

interface Finding {
  readonly check: string
  readonly ok: boolean
  readonly says: string
  /** The check passes, but the operator should know. */
  readonly warning?: boolean
}

const timeout = Duration.seconds(5)

const reach = (url: string) => Effect.timeout(HttpClient.get(url), timeout)

const finding = <E, R>(
  check: string,
  run: Effect.Effect<string | { readonly says: string; readonly isWarning: boolean }, E, R>
): Effect.Effect<Finding, never, R> =>
  run.pipe(
    Effect.match({
      onSuccess: (found) =>
        typeof found === "string"
          ? { check, ok: true, says: found }
          : { check, ok: true, says: found.says, ...(found.isWarning ? { warning: true } : {}) },
      onFailure: (error) => ({ check, ok: false, says: rootCauseMessage(error) })
    })
  )

const mark = ({ ok, warning }: Finding) => !ok ? "FAIL" : warning === true ? "warn" : "ok"

const withWarnings = (says: string, warnings: ReadonlyArray<string>) => ({
  says: [says, ...warnings].join("; "),
  isWarning: warnings.length > 0
})

const database = (opened: Effect.Effect<Database.Database, DatabaseUnusable> | undefined) =>
  opened === undefined
    ? Effect.succeed("embedded, starts with the service")
    : Effect.map(opened, ({ behind, main, postgresVersion, warnings }) => {
      const pooler = main.pooling === "none" ? "" : ` behind a ${main.pooling} pooler`
      const schema = behind === undefined ? "schema is current" : `${behind}, run "async-task-service migrate"`
      return withWarnings(`Postgres ${postgresVersion}${pooler}, ${schema}`, warnings)
    })

/** The outcome of a request to a URL. */
const reached = (url: string) =>
  Effect.map(Proxies.Proxies, (proxies) => {
    const proxy = Proxies.find(proxies, Proxies.targetOf(new URL(url)))
    return `${Addresses.shown(url)} is reachable${proxy === undefined ? "" : ` through the proxy ${proxy.url}`}`
  })

const keysOf = ({ tokenRules: { keys } }: AppConfig.AppConfig) =>
  keys instanceof URL
    ? [
      finding(
        "keys",
        Effect.flatMap(reach(keys.href), HttpClientResponse.filterStatusOk).pipe(
          Effect.andThen(reached(keys.href))
        )
      )
    ]
    : []

/** The statuses of a gateway that cannot reach its server, or of a server that is not ready. */
const isAway = (status: number) => status >= 502 && status <= 504

/** Any other response counts as reachable, because the protocols define none for this URL. */
const upstream = (url: string | undefined, builtIn: string) =>
  url === undefined
    ? Effect.succeed(builtIn)
    : Effect.flatMap(
      reach(url),
      ({ status }) => isAway(status) ? failed(`${Addresses.shown(url)} answers ${status}`) : reached(url)
    )

const withoutBackend = ({ filesDir }: AppConfig.AppConfig) =>
  filesDir === undefined ? "none, and no files: FILES_DIR is not set" : `none; files are kept in ${filesDir}`

const NotReady = Schema.Struct({ checks: Schema.Record(Schema.String, Schema.String) })

/** The answer of `/readyz` of a node that is ready. */
const Warned = Schema.Struct({ warnings: Schema.optional(Schema.Record(Schema.String, Schema.String)) })

/** The failing checks of `/readyz`. Another server, as a gateway, answers 503 without them. */
const notReady = (url: string, response: HttpClientResponse.HttpClientResponse) =>
  Effect.matchEffect(HttpClientResponse.schemaBodyJson(NotReady)(response), {
    onFailure: () => failed(`${Addresses.shown(url)} answers 503`),
    onSuccess: ({ checks }) => {
      const failing = Object.entries(checks).filter(([, result]) => result !== "ok")
      return failed(`${Addresses.shown(url)} is not ready: ${failing.map((check) => check.join(": ")).join("; ")}`)
    }
  })

const ready = (url: string) =>
  Effect.gen(function*() {
    const response = yield* Effect.timeout(HttpClient.get(`${url}/readyz`), timeout)
    if (response.status === 503) return yield* notReady(url, response)
    yield* HttpClientResponse.filterStatusOk(response)
    const { warnings = {} } = yield* Effect.orElseSucceed(
      HttpClientResponse.schemaBodyJson(Warned)(response),
      (): typeof Warned.Type => ({})
    )
    return withWarnings(
      `${Addresses.shown(url)} is ready`,
      Object.entries(warnings).map((warning) => warning.join(": "))
    )
  })

/** Seconds by which a wall clock is ahead of another clock. */
interface Offset {
  readonly of: string
  readonly from: string
  readonly ahead: number
  readonly uncertainty: number
  /** Seconds since it was found. */
  readonly age?: number
}

/** Seconds. The service works with any offset, but its logs and tokens that are minted here have wrong times. */
const maxOffset = 1

const machine = "this machine's clock"
const theDatabase = "the database's"

const againstDatabase = ({ main }: Database.Database) =>
  Effect.gen(function*() {
    const { offset, uncertainty } = yield* ClockSync.sample(yield* SqlClient.SqlClient, machineClocks)
    const ahead = machineClocks.wall() - (machineClocks.monotonic() + offset)
    const found: Offset = { of: machine, from: theDatabase, ahead: ahead / 1000, uncertainty: uncertainty / 1000 }
    return found
  }).pipe(Effect.provide(PgClient.layer({ ...Database.limited(main), maxConnections: 1 })))

/** Reads the `Date` of a response, which has no fractions of a second. */
const againstService = Effect.fnUntraced(function*(url: string) {
  const { headers } = yield* HttpClient.get(`${url}/healthz`)
  if (headers["date"] === undefined) return yield* failed("the service's responses have no date")
  const ahead = (yield* Clock.currentTimeMillis) - Date.parse(headers["date"]) - 500
  const found: Offset = { of: machine, from: "the service's", ahead: ahead / 1000, uncertainty: 0.5 }
  return found
})

/**
 * Reads the gauges of the running node, the sum over their labels; of several processes the highest, or the sum. One that it does not report
 * is `NaN`.
 */
const gaugesOf = Effect.fnUntraced(function*(url: string, token: Redacted.Redacted) {
  const request = HttpClientRequest.bearerToken(HttpClientRequest.get(`${url}/internal/metrics`), token)
  const response = yield* Effect.flatMap(HttpClient.execute(request), HttpClientResponse.filterStatusOk)
  const metrics = yield* response.text
  return (name: string, isSum = false) => {
    const sums = new Map<string | undefined, number>()
    const samples = new RegExp(`^${prometheusName(name)}(?:\\{(?:worker="(\\d+)")?[^}]*\\})? (\\S+)$`, "gm")
    for (const [, worker, value] of metrics.matchAll(samples)) sums.set(worker, (sums.get(worker) ?? 0) + Number(value))
    if (sums.size === 0) return NaN
    return isSum ? [...sums.values()].reduce((sum, value) => sum + value) : Math.max(...sums.values())
  }
})

/** The fate of runs that the core loses. */
const silentRuns = Effect.fnUntraced(
  function*(url: string, token: Redacted.Redacted) {
    const gauge = yield* gaugesOf(url, token)
    const [declared, silent] = [gauge("core.silence"), gauge("core.runs.silent", true)]
    const [stuck, unreachable] = [gauge("core.runs.stuck", true), gauge("core.unreachable")]
    const problems = [
      ...(unreachable > 0 ? ["the service cannot reach the core"] : []),
      ...(stuck > 0 ? [`${stuck} of this node are stuck: nothing was heard of them for STUCK_AFTER`] : []),
      ...(silent > 0 ? [`${silent} of this node are silent`] : [])
    ]
    if (Number.isNaN(declared) && problems.length === 0) return { says: "no run was started yet", isWarning: false }
    const rule = declared === 0
      ? "the core declares no silence_seconds: a run that it loses stays processing until its task's time limit"
      : Number.isNaN(declared)
      ? "no run was started yet"
      : `runs that are silent for ${declared} s are dispatched again`
    return { says: [rule, ...problems].join("; "), isWarning: declared === 0 || problems.length > 0 }
  },
  Effect.timeout(timeout),
  Effect.orElseSucceed(() => ({ says: "unknown, the service does not answer", isWarning: false }))
)

/** The room of the core, and the runs that wait for it. */
const queue = Effect.fnUntraced(
  function*(url: string, token: Redacted.Redacted) {
    const gauge = yield* gaugesOf(url, token)
    const [busy, running, waiting] = [
      gauge("core.busy.duration"),
      gauge("task.queue.running"),
      gauge("task.queue.waiting")
    ]
    const isBusy = busy > 0
    const since = DateTime.formatIso(DateTime.subtract(yield* DateTime.now, { seconds: Math.round(busy) }))
    return {
      says: isBusy
        ? `the core is busy since ${since}, ${waiting} wait`
        : `the core has ${running} runs, ${waiting} wait`,
      isWarning: isBusy
    }
  },
  Effect.timeout(timeout),
  Effect.orElseSucceed(() => ({ says: "unknown, the service does not answer", isWarning: false }))
)

/** Reads the clock of the running node. */
const ofNode = Effect.fnUntraced(function*(url: string, token: Redacted.Redacted) {
  const gauge = yield* gaugesOf(url, token)
  const [ahead, uncertainty, age] = [gauge("clock.offset"), gauge("clock.uncertainty"), gauge("clock.sample.age")]
  const found: Offset = { of: "the node's clock", from: theDatabase, ahead, uncertainty, age }
  return Number.isNaN(ahead) ? yield* failed("the service does not report its clock") : found
})

const describeOffset = ({ age, ahead, from, of, uncertainty }: Offset) => {
  const direction = ahead < 0 ? "behind" : "ahead of"
  const sampled = age === undefined ? "" : `, sampled ${age.toFixed(0)} s ago`
  return `${of} is ${Math.abs(ahead).toFixed(3)} s ${direction} ${from} (± ${uncertainty.toFixed(3)} s${sampled})`
}

/** Compares the clocks of this machine and of the service with the database's, which decides. Fails when the service does not respond. */
const clocks = Effect.fnUntraced(function*(
  url: string,
  opened: Effect.Effect<Database.Database, DatabaseUnusable> | undefined,
  token: Option.Option<Redacted.Redacted>
) {
  const service = yield* againstService(url)
  const own = opened === undefined ? service : yield* Effect.flatMap(opened, againstDatabase)
  const node = Option.isNone(token) ? Option.none() : yield* Effect.option(ofNode(url, token.value))
  const offsets = [own, ...Option.toArray(node)]
  return {
    says: offsets.map(describeOffset).join("; "),
    isWarning: offsets.some(({ ahead, uncertainty }) => Math.abs(ahead) > maxOffset + uncertainty)
  }
}, Effect.timeout(timeout))

/** More processes than cores only take memory. */
const processes = ({ databaseConnections, workers }: AppConfig.AppConfig) => {
  const cores = availableParallelism()
  const each = AppConfig.connectionsOf(databaseConnections, workers)
  return {
    says: `${workers} processes on ${cores} cores, each with ${each} connections and 2 for its shards`,
    isWarning: workers > cores
  }
}

/** Those whom the audit names. */
const namesOfTokens = ({ extensions, internalTokenNames }: AppConfig.AppConfig) => {
  const readers = extensions.flatMap(({ readers = [] }) => readers.map(({ name }) => name))
  return {
    says: [
      `may change: ${internalTokenNames.join(", ")}`,
      ...readers.length === 0 ? [] : [`may read: ${readers.join(", ")}`]
    ]
      .join("; "),
    isWarning: false
  }
}

export const examine = Effect.fnUntraced(function*(internalToken: Option.Option<Redacted.Redacted>) {
  const url = yield* internalUrl
  const token = yield* Effect.option(findInternalToken(internalToken))
  const loaded = yield* Effect.result(AppConfig.load(process.env))
  const config = Result.getOrUndefined(loaded)
  const settings = yield* finding(
    "settings",
    Effect.map(
      Effect.fromResult(loaded),
      ({ isProduction, warnings }) =>
        withWarnings(`valid, ${isProduction ? "production" : "development"} mode`, warnings)
    )
  )
  // Connects as `serve` and `migrate` do.
  const opened = config?.databaseUrl === undefined ? undefined : yield* Effect.cached(
    Database.open({
      ...config,
      databaseUrl: config.databaseUrl,
      isClustered: config.cluster !== undefined || config.workers > 1
    })
  )
  const own = config === undefined ? [] : [
    finding("names of tokens", Effect.succeed(namesOfTokens(config))),
    finding("database", database(opened)),
    ...(config.workers === 1 ? [] : [finding("workers", Effect.succeed(processes(config)))]),
    ...keysOf(config),
    finding("core", upstream(config.coreUrl, "built in")),
    finding(
      "backend",
      config.hasBackend ? upstream(config.assistantBackendUrl, "built in") : Effect.succeed(withoutBackend(config))
    ),
    ...config.extensions.flatMap(({ upstreams = [] }) => upstreams).map(({ name, url }) =>
      finding(name, upstream(url, ""))
    )
  ]
  const clock = finding("clock", clocks(url, opened, token))
  const silence = Option.isNone(token) ? [] : [
    finding("queue", queue(url, token.value)),
    finding("silent runs", silentRuns(url, token.value))
  ]
  const others = yield* Effect.all([...own, finding("service", ready(url)), ...silence, clock], {
    concurrency: "unbounded"
  }).pipe(
    Effect.provide(Outgoing.layer),
    Effect.provideService(Proxies.Proxies, config?.proxies ?? Proxies.none)
  )
  const findings = [settings, ...others]
  yield* print(
    findings,
    (all, { table }) =>
      table(["RESULT", "CHECK", "FINDING"], all.map((one) => [mark(one), one.check, one.says]), "No checks.")
  )
  const bad = findings.filter(({ ok }) => !ok)
  if (bad.length > 0) return yield* failed(`Failed checks: ${bad.map(({ check }) => check).join(", ")}`)
})
