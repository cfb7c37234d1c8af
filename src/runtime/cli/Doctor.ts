/** The command `doctor`: checks the settings and, from this machine, everything that the service depends on. */
import { PgClient } from "@effect/sql-pg"
import { Duration, Effect, type Option, type Redacted } from "effect"
import { FetchHttpClient, HttpClient, HttpClientResponse } from "effect/http"
import { SqlClient } from "effect/sql"
import * as Migrations from "../../services/store/Migrations.ts"
import * as AppConfig from "../config/AppConfig.ts"
import { rootCauseMessage } from "../ErrorMessages.ts"
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

/** Any response counts as reachable, whatever its status. */
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

const database = (url: Redacted.Redacted | undefined) =>
  url === undefined
    ? Effect.succeed("embedded, starts with the service")
    : Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const [row] = yield* sql<{ readonly version: string }>`SELECT current_setting('server_version') AS version`
      const current = yield* Effect.orElseSucceed(Migrations.current(sql), () => 0)
      const schema = current === Migrations.latest
        ? "schema is current"
        : `schema is at version ${current} of ${Migrations.latest}, run "async-task-service migrate"`
      return `Postgres ${row?.version}, ${schema}`
    }).pipe(Effect.provide(PgClient.layer({ url, connectTimeout: timeout })), Effect.timeout(timeout))

const upstream = (url: string | undefined, builtIn: string) =>
  url === undefined ? Effect.succeed(builtIn) : Effect.as(reach(url), `${url} is reachable`)

const ready = (url: string) =>
  Effect.gen(function*() {
    const response = yield* Effect.timeout(HttpClient.get(`${url}/readyz`), timeout)
    const body = yield* HttpClientResponse.filterStatus(response, (status) => status === 200 || status === 503).pipe(
      Effect.flatMap((found) => found.text)
    )
    return response.status === 200 ? `${url} is ready` : yield* failed(body)
  })

export const examine = Effect.fnUntraced(
  function*(internalToken: Option.Option<Redacted.Redacted>) {
    const url = yield* internalUrl
    const token = yield* Effect.option(InternalToken.find(internalToken))
    const config = yield* Effect.result(AppConfig.load(process.env))
    const settings: Finding = config._tag === "Success"
      ? {
        check: "settings",
        ok: true,
        says: config.success.isProduction ? "valid, production mode" : "valid, development mode"
      }
      : { check: "settings", ok: false, says: config.failure.message }
    const own = config._tag === "Success"
      ? [
        finding("database", database(config.success.databaseUrl)),
        finding("core", upstream(config.success.coreUrl, "built in")),
        finding("backend", upstream(config.success.assistantBackendUrl, "built in"))
      ]
      : []
    const databaseUrl = config._tag === "Success" ? config.success.databaseUrl : undefined
    const clock = finding("clock", DoctorClock.examine(url, databaseUrl, token))
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
