/** The store of endpoints on Postgres: what crashes, races and long absences leave behind. */
import { assert, layer } from "@effect/vitest"
import { Effect, Layer, Option } from "effect"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import { now, plus, Timestamp } from "../../../src/domain/Timestamp.ts"
import type { AttemptError } from "../../../src/domain/Webhook.ts"
import { limits } from "../../../src/services/endpoints/Endpoint.ts"
import * as EndpointsSql from "../../../src/services/endpoints/EndpointsSql.ts"
import { type EndpointDelivery, EndpointsStore } from "../../../src/services/endpoints/EndpointsStore.ts"
import { userData } from "../../../src/services/endpoints/EndpointTables.ts"
import * as Database from "../../kit/Database.ts"
import { claim, claimNow, deliveries, endpoint } from "../../kit/endpoints/StoredEndpoints.ts"

const ended = ({ attempt, claimedAt, happenedAt, origin, revision, sub, taskId }: EndpointDelivery, outcome: {
  readonly status: number | null
  readonly error: AttemptError | null
  readonly next?: Timestamp
  readonly endedAt?: Timestamp
}) => ({
  taskId,
  revision,
  happenedAt,
  sub,
  origin,
  attempt,
  endedAt: outcome.endedAt ?? plus(claimedAt, "20 millis"),
  duration: 10,
  responseStatus: outcome.status,
  error: outcome.error,
  nextAttemptAt: outcome.next ?? null
})

const success = { status: 204, error: null } as const

/** Runs a test with the store, in real time, on tables without rows of another one. */
const stored = <A, E>(
  test: (
    store: EndpointsStore["Service"],
    run: (statement: string) => Effect.Effect<ReadonlyArray<Record<string, unknown>>>
  ) => Effect.Effect<A, E, EndpointsStore | SqlClient.SqlClient>
) =>
  TestClock.withLive(Effect.gen(function*() {
    const sql = yield* SqlClient.SqlClient
    const run = (statement: string) => Effect.orDie(sql.unsafe<Record<string, unknown>>(statement))
    yield* run(
      "TRUNCATE webhook_endpoints, webhook_endpoint_removals, webhook_endpoint_bodies, webhook_endpoint_deliveries"
    )
    yield* run(endpoint("one"))
    const store = yield* EndpointsStore
    // A new row may be older than what claims of the test before have seen.
    store.outbox.committed(Timestamp.make(0))
    yield* test(store, run)
  }))

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

  it.effect("goes on with what is younger than 7 days, whichever node does it after a crash", () =>
    stored((store, run) =>
      Effect.gen(function*() {
        yield* run("UPDATE webhook_endpoints SET disabled_at = now(), disabled_reason = 'failing'")
        yield* run(deliveries(3, "now() - interval '8 days'"))
        yield* run(deliveries(5, "now() - interval '2 days' + n * interval '1 second'"))
        yield* run(
          "UPDATE webhook_endpoint_deliveries SET due_at = now() + interval '6 hours' WHERE due_at > now() - interval '3 days'"
        )
        yield* run(deliveries(7, "now() - interval '1 day'"))
        yield* run(
          "UPDATE webhook_endpoint_deliveries SET due_at = NULL, attempts = 14 WHERE created_at > now() - interval '25 hours'"
        )
        const at = yield* now
        assert.strictEqual(Option.getOrThrow(yield* store.update("one", {}, null, at)).disabledAt, null)
        // The process ends here: another one must not send what is too old first.
        assert.lengthOf((yield* claimNow).deliveries, 0)
        yield* store.resume(2)
        const { deliveries: claimed } = yield* claimNow
        assert.lengthOf(claimed, 12)
        assert.deepStrictEqual(
          new Set(claimed.map(({ attempt, attemptsBefore }) => attempt - attemptsBefore)),
          new Set([1])
        )
        assert.isTrue(claimed.every(({ isLast }) => !isLast))
        const log = yield* store.deliveries("one", "failed", null, 100)
        assert.deepStrictEqual(log.map(({ dropped }) => dropped), ["too_old", "too_old", "too_old"])
        // Nothing is repeated.
        yield* store.resume(2)
        assert.lengthOf((yield* claimNow).deliveries, 0)
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

  it.effect("gives up the oldest of a backlog in steps, and what it gives up can be told", () =>
    stored((store, run) =>
      Effect.gen(function*() {
        yield* run(endpoint("two"))
        for (const id of ["one", "two"]) yield* run(deliveries(50, "now() - n * interval '1 second'", id, 100))
        yield* run(deliveries(20, "now() - interval '1 hour'", "two", 100))
        yield* run(
          "UPDATE webhook_endpoint_deliveries SET due_at = NULL, delivered_at = now() WHERE created_at < now() - interval '30 minutes'"
        )
        assert.strictEqual(yield* store.dropBacklog(10_000, 7), 0)
        assert.strictEqual(yield* store.dropBacklog(6000, 7), 40)
        const left = yield* run(
          "SELECT min(created_at) > now() - interval '35 seconds' AS young FROM webhook_endpoint_deliveries WHERE due_at IS NOT NULL"
        )
        assert.deepStrictEqual(left, [{ young: true }])
        assert.lengthOf(yield* run("SELECT FROM webhook_endpoint_bodies"), 80)
        const log = yield* store.deliveries("one", "failed", null, 100)
        assert.deepStrictEqual([log.length, new Set(log.map(({ dropped }) => dropped))], [20, new Set(["backlog"])])
        assert.strictEqual(yield* store.dropBacklog(6000, 7), 0)
      })
    ))

  it.effect("gives up a backlog without the bodies that an endpoint that is read still has", () =>
    stored((store, run) =>
      Effect.gen(function*() {
        yield* run(endpoint("two"))
        yield* run("UPDATE webhook_endpoints SET url = NULL WHERE id = 'two'")
        yield* run(deliveries(20, "now() - n * interval '1 second'", "one", 100))
        // Half of the changes are for both.
        yield* run(
          `INSERT INTO webhook_endpoint_deliveries SELECT 'two', task_uuid, revision, status, format, 0, 0, 1, false, created_at, created_at
          FROM webhook_endpoint_deliveries ORDER BY created_at LIMIT 10`
        )
        assert.lengthOf(yield* store.read("two", 0, yield* now), 10)
        assert.strictEqual(yield* store.dropBacklog(100, 7), 19)
        assert.lengthOf(yield* store.read("two", 0, yield* now), 10)
        assert.lengthOf(yield* run("SELECT FROM webhook_endpoint_bodies"), 11)
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
