/** The clocks as `doctor` finds them: this machine's and the service's, against the database's, which decides. */
import { PgClient } from "@effect/sql-pg"
import { Clock, Duration, Effect, Option, type Redacted } from "effect"
import { HttpClient, HttpClientRequest, HttpClientResponse } from "effect/http"
import { SqlClient } from "effect/sql"
import * as ClockSync from "../../services/operations/ClockSync.ts"
import { prometheusName } from "../../services/telemetry/Metrics.ts"
import { machineClocks } from "../../services/timing/NodeClock.ts"
import { failed } from "./Root.ts"

/** How far a wall clock is ahead of another clock, in seconds. */
interface Offset {
  readonly of: string
  readonly from: string
  readonly ahead: number
  readonly uncertainty: number
  /** Seconds since it was found. */
  readonly age?: number
}

const patience = Duration.seconds(5)
/** Seconds. The service bears any offset; what is logged, and tokens that are minted here, suffer. */
const worthWarning = 1

const againstDatabase = (url: Redacted.Redacted) =>
  Effect.gen(function*() {
    const { offset, uncertainty } = yield* ClockSync.sample(yield* SqlClient.SqlClient, machineClocks)
    const ahead = machineClocks.wall() - (machineClocks.monotonic() + offset)
    const found: Offset = {
      of: "this machine's clock",
      from: "the database's",
      ahead: ahead / 1000,
      uncertainty: uncertainty / 1000
    }
    return found
  }).pipe(Effect.provide(PgClient.layer({ url, connectTimeout: patience, maxConnections: 1 })))

/** By the `Date` of an answer, which has no fractions of a second. */
const againstService = Effect.fnUntraced(function*(url: string) {
  const http = yield* HttpClient.HttpClient
  const { headers } = yield* http.execute(HttpClientRequest.get(`${url}/healthz`))
  if (headers["date"] === undefined) return yield* failed("the service's answers carry no date")
  const ahead = (yield* Clock.currentTimeMillis) - Date.parse(headers["date"]) - 500
  const found: Offset = { of: "this machine's clock", from: "the service's", ahead: ahead / 1000, uncertainty: 0.5 }
  return found
})

/** As the running node finds itself: its metrics. */
const ofNode = Effect.fnUntraced(function*(url: string, token: Redacted.Redacted) {
  const http = yield* HttpClient.HttpClient
  const request = HttpClientRequest.bearerToken(HttpClientRequest.get(`${url}/internal/metrics`), token)
  const metrics = yield* Effect.flatMap(http.execute(request), HttpClientResponse.filterStatusOk).pipe(
    Effect.flatMap(({ text }) => text)
  )
  const gauge = (name: string) => Number(new RegExp(`^${prometheusName(name)} (\\S+)$`, "m").exec(metrics)?.[1])
  const found: Offset = {
    of: "the node's clock",
    from: "the database's",
    ahead: gauge("clock.offset"),
    uncertainty: gauge("clock.uncertainty"),
    age: gauge("clock.sample.age")
  }
  return Number.isNaN(found.ahead) ? yield* failed("the service does not report its clock") : found
})

const describe = ({ age, ahead, from, of, uncertainty }: Offset) => {
  const direction = ahead < 0 ? "behind" : "ahead of"
  const sampled = age === undefined ? "" : `, sampled ${age.toFixed(0)} s ago`
  return `${of} is ${Math.abs(ahead).toFixed(3)} s ${direction} ${from} (± ${uncertainty.toFixed(3)} s${sampled})`
}

/** Fails when the service does not answer. */
export const examine = Effect.fnUntraced(function*(
  url: string,
  databaseUrl: Redacted.Redacted | undefined,
  token: Option.Option<Redacted.Redacted>
) {
  const service = yield* againstService(url)
  const machine = databaseUrl === undefined ? service : yield* againstDatabase(databaseUrl)
  const node = Option.isNone(token) ? Option.none() : yield* Effect.option(ofNode(url, token.value))
  const offsets = [machine, ...Option.toArray(node)]
  return {
    says: offsets.map(describe).join("; "),
    isWarning: offsets.some(({ ahead, uncertainty }) => Math.abs(ahead) > worthWarning + uncertainty)
  }
}, Effect.timeout(patience))
