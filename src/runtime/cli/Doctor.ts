/** The command `doctor`: whether what the service needs is there, asked from this machine with these settings. */
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

const patience = Duration.seconds(5)
/** How far clocks may be apart before tokens and deadlines suffer. */
const maxSkewSeconds = 5

/** Any answer will do: what is asked for is whether there is someone. */
const reach = (url: string) =>
  Effect.gen(function*() {
    const http = yield* HttpClient.HttpClient
    const response = yield* http.execute(HttpClientRequest.get(url))
    return response.headers["date"]
  }).pipe(Effect.timeout(patience))

const finding = <E, R>(check: string, look: Effect.Effect<string, E, R>): Effect.Effect<Finding, never, R> =>
  look.pipe(
    Effect.match({
      onSuccess: (says) => ({ check, ok: true, says }),
      onFailure: (error) => ({ check, ok: false, says: innermost(error) })
    })
  )

const database = (url: Redacted.Redacted | undefined) =>
  url === undefined
    ? Effect.succeed("embedded: starts with the service")
    : Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const [row] = yield* sql<{ readonly version: string }>`SELECT current_setting('server_version') AS version`
      const current = yield* Effect.orElseSucceed(Migrations.current(sql), () => 0)
      const schema = current === Migrations.latest
        ? "schema current"
        : `schema ${current} of ${Migrations.latest}: run migrate`
      return `Postgres ${row?.version}, ${schema}`
    }).pipe(Effect.provide(PgClient.layer({ url, connectTimeout: patience })), Effect.timeout(patience))

const neighbour = (url: string | undefined, embedded: string) =>
  url === undefined ? Effect.succeed(embedded) : Effect.as(reach(url), `${url} answers`)

const clock = (url: string) =>
  Effect.gen(function*() {
    const date = yield* reach(`${url}/healthz`)
    if (date === undefined) return "the service's answers carry no date"
    const apart = Math.abs((yield* Clock.currentTimeMillis) - Date.parse(date)) / 1000
    return apart > maxSkewSeconds
      ? yield* failed(`this machine's clock and the service's are ${apart.toFixed(0)} s apart`)
      : "agrees with the service's"
  })

const ready = (url: string) =>
  Effect.gen(function*() {
    const http = yield* HttpClient.HttpClient
    const response = yield* Effect.timeout(http.execute(HttpClientRequest.get(`${url}/readyz`)), patience)
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
        says: config.success.isProduction ? "complete, production" : "complete, development"
      }
      : { check: "settings", ok: false, says: config.failure.message }
    const own = config._tag === "Success"
      ? [
        finding("database", database(config.success.databaseUrl)),
        finding("core", neighbour(config.success.coreUrl, "built in")),
        finding("backend", neighbour(config.success.assistantBackendUrl, "built in"))
      ]
      : []
    const others = yield* Effect.all([...own, finding("service", ready(url)), finding("clock", clock(url))], {
      concurrency: "unbounded"
    })
    const findings = [settings, ...others]
    yield* print(
      findings,
      (all) => all.map(({ check, ok, says }) => `${ok ? "ok " : "BAD"}  ${check.padEnd(9)}  ${says}`).join("\n")
    )
    const bad = findings.filter(({ ok }) => !ok)
    if (bad.length > 0) return yield* failed(`Not well: ${bad.map(({ check }) => check).join(", ")}`)
  },
  Effect.provide(FetchHttpClient.layer)
)
