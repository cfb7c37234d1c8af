/** The command `doctor`: checks the settings and, from this machine, everything that the service depends on. */
import { Duration, Effect, type Option, type Redacted, Result, Schema } from "effect"
import { FetchHttpClient, HttpClient, HttpClientResponse } from "effect/http"
import * as Migrations from "../../services/store/Migrations.ts"
import { rootCauseMessage } from "../../services/telemetry/RootCause.ts"
import * as Assistants from "../builtin/backend/Assistants.ts"
import * as AppConfig from "../config/AppConfig.ts"
import * as Database from "../postgres/Database.ts"
import * as DoctorClock from "./DoctorClock.ts"
import * as InternalToken from "./InternalToken.ts"
import { failed, internalUrl, print } from "./Root.ts"

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

const database = (opened: Effect.Effect<Database.Database, Database.DatabaseUnusable> | undefined) =>
  opened === undefined
    ? Effect.succeed("embedded, starts with the service")
    : Effect.map(opened, ({ main, postgresVersion, schemaVersion, warnings }) => {
      const pooler = main.pooling === "none" ? "" : ` behind a ${main.pooling} pooler`
      const schema = schemaVersion === Migrations.latest
        ? "schema is current"
        : `schema is at version ${schemaVersion} of ${Migrations.latest}`
          + (schemaVersion < Migrations.latest ? `, run "async-task-service migrate"` : "")
      return withWarnings(`Postgres ${postgresVersion}${pooler}, ${schema}`, warnings)
    })

const assistants = ({ assistantBackendUrl, assistantsFile }: AppConfig.AppConfig) =>
  assistantsFile === undefined || assistantBackendUrl !== undefined
    ? []
    : [
      finding("assistants", Effect.as(Assistants.fromFile(assistantsFile, process.env), `${assistantsFile} is valid`))
    ]

const keys = ({ tokenRules: { key } }: AppConfig.AppConfig) =>
  key instanceof URL
    ? [
      finding(
        "keys",
        Effect.flatMap(reach(key.href), HttpClientResponse.filterStatusOk).pipe(
          Effect.as(`${key.href} is reachable`)
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
      ({ status }) => isAway(status) ? failed(`${url} answers ${status}`) : Effect.succeed(`${url} is reachable`)
    )

const NotReady = Schema.Struct({ checks: Schema.Record(Schema.String, Schema.String) })

/** The failing checks of `/readyz`. Another server, as a gateway, answers 503 without them. */
const notReady = (url: string, response: HttpClientResponse.HttpClientResponse) =>
  Effect.matchEffect(HttpClientResponse.schemaBodyJson(NotReady)(response), {
    onFailure: () => failed(`${url} answers 503`),
    onSuccess: ({ checks }) => {
      const failing = Object.entries(checks).filter(([, result]) => result !== "ok")
      return failed(`${url} is not ready: ${failing.map((check) => check.join(": ")).join("; ")}`)
    }
  })

const ready = (url: string) =>
  Effect.gen(function*() {
    const response = yield* Effect.timeout(HttpClient.get(`${url}/readyz`), timeout)
    if (response.status === 503) return yield* notReady(url, response)
    yield* HttpClientResponse.filterStatusOk(response)
    return `${url} is ready`
  })

export const examine = Effect.fnUntraced(
  function*(internalToken: Option.Option<Redacted.Redacted>) {
    const url = yield* internalUrl
    const token = yield* Effect.option(InternalToken.find(internalToken))
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
      Database.open({ ...config, databaseUrl: config.databaseUrl, isClustered: config.cluster !== undefined })
    )
    const own = config === undefined ? [] : [
      finding("database", database(opened)),
      ...assistants(config),
      ...keys(config),
      finding("core", upstream(config.coreUrl, "built in")),
      finding("backend", upstream(config.assistantBackendUrl, "built in"))
    ]
    const clock = finding("clock", DoctorClock.examine(url, opened, token))
    const others = yield* Effect.all([...own, finding("service", ready(url)), clock], { concurrency: "unbounded" })
    const findings = [settings, ...others]
    yield* print(
      findings,
      (all, { table }) =>
        table(["RESULT", "CHECK", "FINDING"], all.map((one) => [mark(one), one.check, one.says]), "No checks.")
    )
    const bad = findings.filter(({ ok }) => !ok)
    if (bad.length > 0) return yield* failed(`Failed checks: ${bad.map(({ check }) => check).join(", ")}`)
  },
  Effect.provide(FetchHttpClient.layer)
)
