/** The store of endpoints on Postgres: what crashes, races and long absences leave behind. */
import { assert, layer } from "@effect/vitest"
import { Effect, Fiber, Layer, Option } from "effect"
import { SqlClient } from "effect/sql"
import { now, plus, Timestamp } from "../../../src/domain/Timestamp.ts"
import { limits } from "../../../src/services/endpoints/Endpoint.ts"
import * as EndpointsSql from "../../../src/services/endpoints/EndpointsSql.ts"
import { userData } from "../../../src/services/endpoints/EndpointTables.ts"
import * as Database from "../../kit/Database.ts"
import { claim, claimNow, deliveries, ended, endpoint, onSignal, stored } from "../../kit/endpoints/StoredEndpoints.ts"

const success = { status: 204, error: null } as const

layer(Layer.provideMerge(EndpointsSql.layer, Database.layer))("the store of endpoints", (it) => {
  it.effect("keeps the secret of the first of two rotations at a time as the old one", () =>
    stored((store) =>
      Effect.gen(function*() {
        const at = yield* now
        const until = plus(at, "1 hour")
        yield* Effect.all([store.rotate("one", "first", until, at), store.rotate("one", "second", until, at)], {
          concurrency: "unbounded"
        })
        const { oldSecret, secret } = Option.getOrThrow(yield* store.get("one"))
        assert.sameMembers([oldSecret, secret], ["first", "second"])
        yield* store.rotate("one", "third", null, at)
        const last = Option.getOrThrow(yield* store.get("one"))
        assert.deepStrictEqual([last.secret, last.oldSecret, last.oldSecretUntil], ["third", null, null])
      })
    ))

  it.effect("learns nothing of an endpoint from an attempt that began before it was changed", () =>
    stored((store, run) =>
      Effect.gen(function*() {
        yield* run(deliveries(2, "now() - interval '1 second'"))
        const { deliveries: [first, second] } = yield* claimNow
        const at = plus(yield* now, "1 second")
        yield* store.update("one", { url: "https://moved.example/" }, undefined, at)
        const gone = { status: 410, error: "not_2xx", next: plus(at, "1 hour") } as const
        assert.deepStrictEqual(yield* store.outbox.recordOutcomes([ended(first!, { ...gone, endedAt: at })]), [])
        const kept = Option.getOrThrow(yield* store.get("one"))
        assert.deepStrictEqual([kept.disabledAt, kept.failingSince], [null, null])
        const later = { ...gone, endedAt: plus(at, "1 second") }
        assert.deepStrictEqual(yield* store.outbox.recordOutcomes([ended(second!, later)]), [
          { id: "one", url: "https://moved.example/", reason: "gone" }
        ])
      })
    ))

  it.effect("records the outcome of an attempt that took longer than 2^31 microseconds, as when its process was frozen", () =>
    stored((store, run) =>
      Effect.gen(function*() {
        yield* run(deliveries(1, "now() - interval '1 second'"))
        const { deliveries: [delivery] } = yield* claimNow
        yield* store.outbox.recordOutcomes([{ ...ended(delivery!, success), duration: 2_147_484 }])
        assert.lengthOf(yield* store.deliveries("one", "delivered", null, 10), 1)
      })
    ))

  it.effect("records outcomes while the endpoint is locked without a deadlock", () =>
    stored((store, run) =>
      Effect.gen(function*() {
        yield* run(deliveries(1, "now() - interval '1 second'"))
        const { deliveries: [delivery] } = yield* claimNow
        const sql = yield* SqlClient.SqlClient
        const recording = yield* onSignal(
          store.outbox.recordOutcomes([ended(delivery!, { status: 500, error: "not_2xx" })])
        )
        yield* sql.withTransaction(Effect.gen(function*() {
          // As a reader of the endpoint does, whose URL was just removed.
          yield* run("SELECT FROM webhook_endpoints FOR NO KEY UPDATE")
          recording.signal.openUnsafe()
          yield* Database.isBlocked()
          yield* run("UPDATE webhook_endpoint_deliveries SET position = 1")
        }))
        yield* Fiber.join(recording.fiber)
        assert.isNotNull(Option.getOrThrow(yield* store.get("one")).failingSince)
      })
    ))

  it.effect("claims a lost attempt again, and only a success of the lost one counts", () =>
    stored((store, run) =>
      Effect.gen(function*() {
        yield* run(deliveries(2, "now() - interval '1 second'"))
        const at = yield* now
        const { deliveries: lost } = yield* claim(at)
        assert.lengthOf((yield* claim(plus(at, "29 seconds"))).deliveries, 0)
        const again = yield* claim(plus(at, "31 seconds"))
        assert.deepStrictEqual(again.deliveries.map(({ attempt, isAfterLost }) => [attempt, isAfterLost]), [[2, true], [
          2,
          true
        ]])
        const next = plus(at, "1 hour")
        yield* store.outbox.recordOutcomes([
          ended(lost[0]!, success),
          ended(lost[1]!, { status: 500, error: "not_2xx", next })
        ])
        const states = yield* run(
          "SELECT sending, delivered_at IS NOT NULL AS delivered FROM webhook_endpoint_deliveries ORDER BY 1"
        )
        assert.deepStrictEqual(states, [{ sending: false, delivered: true }, { sending: true, delivered: false }])
      })
    ))

  it.effect("deletes what a change has made for an endpoint that was removed meanwhile", () =>
    stored((store, run) =>
      Effect.gen(function*() {
        yield* run(deliveries(3, "now()"))
        assert.isTrue(yield* store.remove("one"))
        const past = Timestamp.make(0)
        assert.strictEqual(yield* store.deleteBefore(past, 100), 3)
        // A transaction that saw the endpoint commits.
        yield* run(deliveries(2, "now()"))
        assert.strictEqual(yield* store.deleteBefore(past, 100), 2)
        assert.deepStrictEqual(yield* run("SELECT FROM webhook_endpoint_bodies"), [])
        yield* run("UPDATE webhook_endpoint_removals SET removed_at = removed_at - interval '2 hours'")
        yield* store.deleteBefore(past, 100)
        assert.deepStrictEqual(yield* run("SELECT FROM webhook_endpoint_removals"), [])
      })
    ))

  it.effect("deletes old deliveries with the bodies that no other endpoint needs, and nothing that is pending", () =>
    stored((store, run) =>
      Effect.gen(function*() {
        yield* run(endpoint("two"))
        yield* run(deliveries(4, "now() - interval '2 days'"))
        yield* run(deliveries(1, "now()"))
        yield* run(
          `INSERT INTO webhook_endpoint_deliveries (endpoint_id, task_uuid, revision, status, format, created_at, due_at, attempts_allowed)
          SELECT 'two', task_uuid, revision, status, format, created_at, due_at, attempts_allowed FROM webhook_endpoint_deliveries LIMIT 1`
        )
        yield* run(
          "UPDATE webhook_endpoint_deliveries SET due_at = NULL, delivered_at = now() WHERE endpoint_id = 'one'"
        )
        const before = plus(yield* now, "-1 day")
        assert.strictEqual(yield* store.deleteBefore(before, 100), 4)
        assert.lengthOf(yield* run("SELECT FROM webhook_endpoint_bodies"), 2)
        assert.lengthOf((yield* claimNow).deliveries, 1)
        yield* run("UPDATE webhook_endpoint_deliveries SET due_at = NULL, delivered_at = now()")
        assert.strictEqual(yield* store.deleteBefore(before, 100), 1)
        assert.lengthOf(yield* run("SELECT FROM webhook_endpoint_bodies"), 1)
      })
    ))

  it.effect("reads on behind events whose bodies are gone, in full pages", () =>
    stored((store, run) =>
      Effect.gen(function*() {
        const { readRows } = limits
        yield* run("UPDATE webhook_endpoints SET url = NULL")
        yield* run(deliveries(3 * readRows, "now() + n * interval '1 microsecond'"))
        for (let count = 0; count < 3; count++) yield* store.read("one", 0, yield* now)
        yield* run(
          `DELETE FROM webhook_endpoint_bodies b USING webhook_endpoint_deliveries d
          WHERE d.task_uuid = b.task_uuid AND d.position <= ${readRows + 10} AND d.position <> 2`
        )
        const positions = (yield* store.read("one", 0, yield* now)).map(({ position }) => position)
        assert.deepStrictEqual(positions, [2, ...Array.from({ length: readRows - 1 }, (_, n) => readRows + 11 + n)])
      })
    ))

  it.effect("finds the deliveries of a user by keys, in any number of those of others", () =>
    stored((_, run) =>
      Effect.gen(function*() {
        yield* run(deliveries(2000, "now()"))
        yield* run(deliveries(1, "now()").replace("'ann'", "'bob'"))
        yield* run("ANALYZE webhook_endpoint_deliveries, webhook_endpoint_bodies, webhook_endpoints")
        const [{ isOfUser, table } = assert.fail()] = userData.tables
        const sql = yield* SqlClient.SqlClient
        const plan = yield* sql.withTransaction(Effect.gen(function*() {
          // As in every session of the service.
          yield* run("SET LOCAL enable_seqscan = off")
          return yield* run(
            `EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF)
            SELECT ctid FROM ${table} WHERE ${isOfUser.replace("$1", "'bob'")} LIMIT 1000`
          )
        }))
        const text = plan.map((row) => Object.values(row)[0]).join("\n")
        assert.match(text, /^Limit \(actual rows=1/)
        assert.match(text, /Index .*webhook_endpoint_deliveries/)
        assert.notMatch(text, /Seq Scan on webhook_endpoint_deliveries/)
      })
    ))

  it.effect("reads events whose position no longer fits an integer of 32 bits", () =>
    stored((store, run) =>
      Effect.gen(function*() {
        yield* run(`UPDATE webhook_endpoints SET url = NULL, last_position = ${2 ** 31}`)
        yield* run(deliveries(1, "now()"))
        const [event] = yield* store.read("one", 0, yield* now)
        assert.strictEqual(event?.position, 2 ** 31 + 1)
      })
    ))
})
