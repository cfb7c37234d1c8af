/** The cost of claims of endpoints' deliveries: while a snapshot is open, and beside a backlog. */
import { assert, it } from "@effect/vitest"
import { Duration, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import { monotonicMillis, now, type Timestamp } from "../../../src/domain/Timestamp.ts"
import * as EndpointsSql from "../../../src/services/endpoints/EndpointsSql.ts"
import { EndpointsStore } from "../../../src/services/endpoints/EndpointsStore.ts"
import * as Database from "../../kit/Database.ts"
import { check, type Queue } from "../../kit/OpenSnapshot.ts"
import { unlimited } from "../../kit/StoredWebhooks.ts"

const endpoint = (id: string) =>
  `INSERT INTO webhook_endpoints (id, url, origin, format, secret, created_at, updated_at)
  VALUES ('${id}', 'https://${id}.example/', 'https://${id}.example', 'thin', 's', now(), now()) ON CONFLICT DO NOTHING`

const deliveries = (count: number, due: string, id = "one") =>
  `WITH made AS (
    INSERT INTO webhook_endpoint_bodies (task_uuid, revision, format, created_at, bytes, body)
    SELECT gen_random_uuid(), 1, 'thin', ${due}, 2, '{}' FROM generate_series(1, ${count}) RETURNING *
  )
  INSERT INTO webhook_endpoint_deliveries (endpoint_id, task_uuid, revision, status, format, created_at, due_at, attempts_allowed)
  SELECT '${id}', task_uuid, revision, 'completed', 'thin', created_at, created_at, 14 FROM made`

const claim = (at: Timestamp, from?: Timestamp) =>
  Effect.flatMap(EndpointsStore, ({ outbox }) =>
    outbox.claim({
      at,
      ...(from === undefined ? {} : { from }),
      lostBefore: at,
      limit: 64,
      leases: [Duration.seconds(30)],
      permits: { ...unlimited, ofProven: 64, ofUnproven: 64, ofUser: { total: 64, unproven: 64 }, unproven: 64 }
    }))

const queue: Queue<EndpointsStore> = {
  add: (count, due) => deliveries(count, due).replace("WITH made", `WITH registered AS (${endpoint("one")}), made`),
  leave: [
    `UPDATE webhook_endpoint_deliveries SET attempts = 1, sending = true, due_at = due_at + interval '35 seconds' WHERE due_at <= now()`,
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
      yield* Effect.logInfo(`claim: ${few.toFixed(1)} ms beside 500, ${many.toFixed(1)} ms beside 200,000`)
      assert.isAtMost(many, 3 * few + 10)
    })).pipe(Effect.provide(Layer.provideMerge(EndpointsSql.layer, Database.layer))),
  60_000
)
