/** The cost of claims of endpoints' deliveries: while a snapshot is open, and beside a backlog. */
import { assert, it } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import { monotonicMillis, now } from "../../../src/domain/Timestamp.ts"
import * as EndpointsSql from "../../../src/services/endpoints/EndpointsSql.ts"
import type { EndpointsStore } from "../../../src/services/endpoints/EndpointsStore.ts"
import * as Database from "../../kit/Database.ts"
import { claim, deliveries, endpoint } from "../../kit/endpoints/StoredEndpoints.ts"
import { check, type Queue } from "../../kit/OpenSnapshot.ts"

const queue: Queue<EndpointsStore> = {
  add: (count, due) => deliveries(count, due).replace("WITH made", `WITH registered AS (${endpoint("one")}), made`),
  leave: [
    `UPDATE webhook_endpoint_deliveries SET attempts = 1, sending = true, leased_until = now() + interval '35 seconds' WHERE due_at <= now()`,
    `UPDATE webhook_endpoint_deliveries SET sending = false, due_at = NULL, delivered_at = now() WHERE due_at IS NOT NULL`
  ],
  claim
}

it.effect("a claim reads as few pages as before much was sent while a snapshot is open", () =>
  check(queue, EndpointsSql.layer))

it.effect(
  "a claim takes as long beside 200,000 due deliveries of an endpoint as beside a few, and finds those of others",
  () =>
    TestClock.withLive(Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      for (const id of ["dead", "alive"]) yield* sql.unsafe(endpoint(id))
      const measure = Effect.gen(function*() {
        const times: Array<number> = []
        for (let count = 0; count < 9; count++) {
          yield* sql.unsafe(deliveries(8, "clock_timestamp() - interval '1 second'", "alive"))
          const begun = yield* monotonicMillis
          const { deliveries: found } = yield* claim(yield* now)
          times.push((yield* monotonicMillis) - begun)
          assert.strictEqual(found.filter(({ sub }) => sub === "alive").length, 8)
        }
        return times.toSorted((one, other) => one - other)[4]!
      })
      yield* sql.unsafe(deliveries(500, "now()", "dead"))
      const few = yield* measure
      yield* sql.unsafe(deliveries(200_000, "now() - interval '1 hour'", "dead"))
      yield* sql.unsafe("ANALYZE webhook_endpoint_deliveries")
      const many = yield* measure
      // oxlint-disable-next-line no-console -- the figure
      console.log(`a claim takes ${few.toFixed(1)} ms beside 500 due deliveries, ${many.toFixed(1)} ms beside 200,000`)
      assert.isAtMost(many, 3 * few + 10)
    })).pipe(Effect.provide(Layer.provideMerge(EndpointsSql.layer, Database.layer))),
  60_000
)
