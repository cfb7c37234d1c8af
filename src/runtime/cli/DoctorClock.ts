/** Compares the clocks of this machine and of the service with the database's, which decides. */
import { PgClient } from "@effect/sql-pg"
import { Clock, Duration, Effect, Option, type Redacted } from "effect"
import { HttpClient, HttpClientRequest, HttpClientResponse } from "effect/http"
import { SqlClient } from "effect/sql"
import * as ClockSync from "../../services/operations/ClockSync.ts"
import { prometheusName } from "../../services/telemetry/Metrics.ts"
import { machineClocks } from "../../services/timing/NodeClock.ts"
import * as Database from "../postgres/Database.ts"
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

const timeout = Duration.seconds(5)
/** Seconds. The service works with any offset, but its logs and tokens that are minted here have wrong times. */
const maxOffset = 1

const machine = "this machine's clock"
const database = "the database's"

const againstDatabase = ({ main }: Database.Database) =>
  Effect.gen(function*() {
    const { offset, uncertainty } = yield* ClockSync.sample(yield* SqlClient.SqlClient, machineClocks)
    const ahead = machineClocks.wall() - (machineClocks.monotonic() + offset)
    const found: Offset = { of: machine, from: database, ahead: ahead / 1000, uncertainty: uncertainty / 1000 }
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

/** Reads the metrics of the running node. */
const ofNode = Effect.fnUntraced(function*(url: string, token: Redacted.Redacted) {
  const request = HttpClientRequest.bearerToken(HttpClientRequest.get(`${url}/internal/metrics`), token)
  const response = yield* Effect.flatMap(HttpClient.execute(request), HttpClientResponse.filterStatusOk)
  const metrics = yield* response.text
  const gauge = (name: string) => Number(new RegExp(`^${prometheusName(name)} (\\S+)$`, "m").exec(metrics)?.[1])
  const [ahead, uncertainty, age] = [gauge("clock.offset"), gauge("clock.uncertainty"), gauge("clock.sample.age")]
  const found: Offset = { of: "the node's clock", from: database, ahead, uncertainty, age }
  return Number.isNaN(ahead) ? yield* failed("the service does not report its clock") : found
})

const describe = ({ age, ahead, from, of, uncertainty }: Offset) => {
  const direction = ahead < 0 ? "behind" : "ahead of"
  const sampled = age === undefined ? "" : `, sampled ${age.toFixed(0)} s ago`
  return `${of} is ${Math.abs(ahead).toFixed(3)} s ${direction} ${from} (± ${uncertainty.toFixed(3)} s${sampled})`
}

/** Fails when the service does not respond. */
export const examine = Effect.fnUntraced(function*(
  url: string,
  opened: Effect.Effect<Database.Database, Database.DatabaseUnusable> | undefined,
  token: Option.Option<Redacted.Redacted>
) {
  const service = yield* againstService(url)
  const own = opened === undefined ? service : yield* Effect.flatMap(opened, againstDatabase)
  const node = Option.isNone(token) ? Option.none() : yield* Effect.option(ofNode(url, token.value))
  const offsets = [own, ...Option.toArray(node)]
  return {
    says: offsets.map(describe).join("; "),
    isWarning: offsets.some(({ ahead, uncertainty }) => Math.abs(ahead) > maxOffset + uncertainty)
  }
}, Effect.timeout(timeout))
