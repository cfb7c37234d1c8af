/** The command `doctor`: checks the settings and, from this machine, everything that the service depends on. */
import { PgClient } from "@effect/sql-pg"
import { Clock, Duration, Effect, type Redacted } from "effect"
import { FetchHttpClient, HttpClient, HttpClientRequest, HttpClientResponse } from "effect/http"
import { SqlClient } from "effect/sql"
import * as Migrations from "../../services/sql/Migrations.ts"
import * as AppConfig from "../AppConfig.ts"
import { innermost } from "../Endings.ts"
import { failed, print, root } from "./Root.ts"

interface Finding {
  readonly check: string
  readonly ok: boolean
  readonly says: string
}

const timeout = Duration.seconds(5)
/** Larger clock differences affect the expiry of tokens and the deadlines of tasks. */
const maxSkewSeconds = 5

/** Returns the `Date` header. Any response counts as reachable, whatever its status. */
const reach = (url: string) =>
  Effect.gen(function*() {
    const http = yield* HttpClient.HttpClient
    const response = yield* http.execute(HttpClientRequest.get(url))
    return response.headers["date"]
  }).pipe(Effect.timeout(timeout))

const finding = <E, R>(check: string, run: Effect.Effect<string, E, R>): Effect.Effect<Finding, never, R> =>
  run.pipe(
    Effect.match({
      onSuccess: (says) => ({ check, ok: true, says }),
      onFailure: (error) => ({ check, ok: false, says: innermost(error) })
    })
  )

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

const clock = (url: string) =>
  Effect.gen(function*() {
    const date = yield* reach(`${url}/healthz`)
    if (date === undefined) return "unknown, the service sends no Date header"
    const skew = Math.abs((yield* Clock.currentTimeMillis) - Date.parse(date)) / 1000
    return skew > maxSkewSeconds
      ? yield* failed(`the clocks of this machine and the service differ by ${skew.toFixed(0)} s`)
      : "in sync with the service"
  })

const ready = (url: string) =>
  Effect.gen(function*() {
    const http = yield* HttpClient.HttpClient
    const response = yield* Effect.timeout(http.execute(HttpClientRequest.get(`${url}/readyz`)), timeout)
    const body = yield* HttpClientResponse.filterStatus(response, (status) => status === 200 || status === 503).pipe(
      Effect.flatMap((found) => found.text)
    )
    return response.status === 200 ? `${url} is ready` : yield* failed(body)
  })

export const examine = Effect.fnUntraced(
  function*() {
    const { url } = yield* root
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
    const others = yield* Effect.all([...own, finding("service", ready(url)), finding("clock", clock(url))], {
      concurrency: "unbounded"
    })
    const findings = [settings, ...others]
    yield* print(
      findings,
      (all) => all.map(({ check, ok, says }) => `${ok ? "ok  " : "FAIL"}  ${check.padEnd(9)}  ${says}`).join("\n")
    )
    const bad = findings.filter(({ ok }) => !ok)
    if (bad.length > 0) return yield* failed(`Failed checks: ${bad.map(({ check }) => check).join(", ")}`)
  },
  Effect.provide(FetchHttpClient.layer)
)
