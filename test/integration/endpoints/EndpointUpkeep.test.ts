/** The upkeep of endpoints on Postgres: what is pending, in any number, beside other statements and other nodes. */
import { assert, layer } from "@effect/vitest"
import { Effect, Fiber, Layer, Option } from "effect"
import { SqlClient } from "effect/sql"
import { now, plus, Timestamp } from "../../../src/domain/Timestamp.ts"
import * as EndpointsSql from "../../../src/services/endpoints/EndpointsSql.ts"
import { userData } from "../../../src/services/endpoints/EndpointTables.ts"
import * as Upkeep from "../../../src/services/endpoints/EndpointUpkeep.ts"
import * as Database from "../../kit/Database.ts"
import { claimNow, deliveries, endpoint, onSignal, stored } from "../../kit/endpoints/StoredEndpoints.ts"

/** The same events, pending for another endpoint. */
const copy = (to: string) =>
  `INSERT INTO webhook_endpoint_deliveries (endpoint_id, task_uuid, revision, status, format, created_at, due_at, attempts_allowed)
  SELECT '${to}', task_uuid, revision, status, format, created_at, due_at, attempts_allowed FROM webhook_endpoint_deliveries`

/** Changes of an endpoint's deliveries fail, as by a timeout. */
const failing = (id: string) =>
  `DO $$ BEGIN
    CREATE FUNCTION too_long() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE ''too long'' USING ERRCODE = ''57014''; END';
    CREATE TRIGGER too_long BEFORE UPDATE ON webhook_endpoint_deliveries FOR EACH ROW WHEN (OLD.endpoint_id = '${id}')
      EXECUTE FUNCTION too_long();
  END $$`
const mended = "DROP FUNCTION too_long CASCADE"

interface Plan {
  readonly "Relation Name"?: string
  readonly "Actual Rows"?: number
  readonly "Actual Loops"?: number
  readonly "Rows Removed by Filter"?: number
  readonly Plans?: ReadonlyArray<Plan>
}

/** Rows of deliveries that the scans of a plan read. */
const rowsOf = (plan: Plan): number => {
  const own = plan["Relation Name"] === "webhook_endpoint_deliveries"
    ? ((plan["Actual Rows"] ?? 0) + (plan["Rows Removed by Filter"] ?? 0)) * (plan["Actual Loops"] ?? 1)
    : 0
  return (plan.Plans ?? []).reduce((sum, part) => sum + rowsOf(part), own)
}

/** Rows of deliveries that a statement reads, which is taken back. */
const rowsRead = Effect.fnUntraced(function*(text: string, values: ReadonlyArray<unknown>) {
  const sql = yield* SqlClient.SqlClient
  return yield* sql.withTransaction(Effect.gen(function*() {
    // As in every session of the service.
    yield* sql`SET LOCAL enable_seqscan = off`
    const [row] = yield* sql.unsafe<{ readonly "QUERY PLAN": unknown }>(
      `EXPLAIN (ANALYZE, TIMING OFF, FORMAT JSON) ${text}`,
      values
    )
    const plan = row?.["QUERY PLAN"]
    const [{ Plan }] = (typeof plan === "string" ? JSON.parse(plan) : plan) as [{ Plan: Plan }]
    return yield* Effect.fail(rowsOf(Plan))
  })).pipe(Effect.catch((rows) => typeof rows === "number" ? Effect.succeed(rows) : Effect.die(rows)))
})

layer(Layer.provideMerge(EndpointsSql.layer, Database.layer))("the upkeep of endpoints", (it) => {
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

  it.effect("makes an endpoint go on although another one cannot, which is overdue meanwhile", () =>
    stored((store, run) =>
      Effect.gen(function*() {
        yield* run(endpoint("two"))
        for (const id of ["one", "two"]) yield* run(deliveries(3, "now() - interval '8 days'", id))
        for (const id of ["one", "two"]) yield* run(deliveries(1, "now() - interval '1 day'", id))
        yield* run("UPDATE webhook_endpoints SET disabled_at = now(), disabled_reason = 'failing'")
        for (const id of ["one", "two"]) yield* store.update(id, {}, null, yield* now)
        yield* run(failing("one"))
        yield* Effect.ensuring(Effect.ignore(store.resume(2)), run(mended))
        const { deliveries: claimed } = yield* claimNow
        assert.deepStrictEqual(claimed.map(({ sub }) => sub), ["two"])
        const health = yield* store.health
        assert.strictEqual(health.filter(({ oldestDue }) => oldestDue !== null).length, 1)
        yield* store.resume(2)
        assert.deepStrictEqual((yield* claimNow).deliveries.map(({ sub }) => sub), ["one"])
      })
    ))

  it.effect("sends nothing that is too old when another node dies that was giving it up", () =>
    stored((store, run) =>
      Effect.gen(function*() {
        yield* run(deliveries(3, "now() - interval '8 days'"))
        yield* run("UPDATE webhook_endpoints SET disabled_at = now(), disabled_reason = 'failing'")
        const at = yield* now
        yield* store.update("one", {}, null, at)
        const sql = yield* SqlClient.SqlClient
        const resuming = yield* onSignal(store.resume(10))
        const dead = sql.withTransaction(Effect.gen(function*() {
          yield* sql.unsafe(Upkeep.resumePending.text, ["one", 0, 10, at, plus(at, "-7 days")])
          resuming.signal.openUnsafe()
          yield* Database.isBlocked()
          return yield* Effect.fail("rolled back" as const)
        }))
        assert.strictEqual(yield* Effect.flip(dead), "rolled back")
        yield* Fiber.join(resuming.fiber)
        assert.lengthOf((yield* claimNow).deliveries, 0)
        assert.lengthOf(yield* store.deliveries("one", "failed", null, 10), 3)
      })
    ))

  it.effect("gives those that failed a round with moments of their own, so that no page has more than it may", () =>
    stored((store, run) =>
      Effect.gen(function*() {
        yield* run(deliveries(50, "now() - n * interval '1 minute'"))
        yield* run("UPDATE webhook_endpoint_deliveries SET due_at = NULL, attempts = 14")
        yield* run("UPDATE webhook_endpoints SET disabled_at = now(), disabled_reason = 'failing'")
        const at = yield* now
        yield* store.update("one", {}, null, at)
        yield* store.resume(7)
        const due = yield* run(
          "SELECT count(DISTINCT due_at)::int AS count, max(due_at) <= now() AS is_due FROM webhook_endpoint_deliveries"
        )
        assert.deepStrictEqual(due, [{ count: 50, is_due: true }])
        assert.lengthOf((yield* claimNow).deliveries, 50)
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
        assert.lengthOf(yield* run("SELECT FROM webhook_endpoint_bodies WHERE body <> ''"), 80)
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
        assert.lengthOf(yield* run("SELECT FROM webhook_endpoint_bodies WHERE body <> ''"), 11)
      })
    ))

  it.effect("gives up the backlog of an endpoint although that of another one cannot be", () =>
    stored((store, run) =>
      Effect.gen(function*() {
        yield* run(endpoint("two"))
        for (const id of ["one", "two"]) yield* run(deliveries(50, "now() - n * interval '1 second'", id, 100))
        yield* run(failing("one"))
        const dropped = yield* Effect.ensuring(store.dropBacklog(6000, 7), run(mended))
        assert.strictEqual(dropped, 20)
      })
    ))

  it.effect(
    "gives up nothing below the bound, however few pages have what is pending",
    () =>
      stored((store, run) =>
        Effect.gen(function*() {
          // Four bodies on a page, and one of 25 is pending.
          yield* run(
            deliveries(16_000, "now() - n * interval '1 second'", "one", 40_000).replace("'{}'", "repeat('x', 1900)")
          )
          yield* run(
            "UPDATE webhook_endpoint_deliveries SET due_at = NULL, delivered_at = now() WHERE extract(epoch FROM now() - created_at)::int % 25 > 0"
          )
          const bound = 640 * 40_000 / 0.94
          for (let round = 0; round < 20; round++) assert.strictEqual(yield* store.dropBacklog(bound, 1000), 0)
          const dropped = yield* store.dropBacklog(0.9 * bound, 1000)
          assert.isTrue(dropped >= 27 && dropped <= 35, String(dropped))
        })
      ),
    60_000
  )

  it.effect("counts a body once that several endpoints wait for", () =>
    stored((store, run) =>
      Effect.gen(function*() {
        yield* run(deliveries(100, "now() - n * interval '1 second'", "one", 100))
        for (const id of ["two", "three"]) {
          yield* run(endpoint(id))
          yield* run(`${copy(id)} WHERE endpoint_id = 'one'`)
        }
        assert.strictEqual(yield* store.dropBacklog(10_000, 7), 0)
        assert.strictEqual(yield* store.dropBacklog(9000, 7), 30)
        assert.lengthOf(yield* run("SELECT FROM webhook_endpoint_bodies WHERE body = ''"), 10)
      })
    ))

  it.effect("leaves those that it gives up to the export and the erasure of their user, and sends them no more", () =>
    stored((store, run) =>
      Effect.gen(function*() {
        yield* run(deliveries(10, "now() - n * interval '1 second'", "one", 1000))
        assert.strictEqual(yield* store.dropBacklog(5000, 7), 5)
        const [{ isOfUser, table } = assert.fail()] = userData.tables
        assert.lengthOf(yield* run(`SELECT FROM ${table} WHERE ${isOfUser.replace("$1", "'ann'")}`), 10)
        const [dropped] = yield* store.deliveries("one", "failed", null, 1)
        assert.isFalse(yield* store.redeliver(dropped!, yield* now))
        const all = { from: Timestamp.make(0), to: yield* now, failedOnly: true }
        assert.deepStrictEqual(yield* store.replay("one", all, yield* now, 100), { enqueued: 0, left: 0 })
      })
    ))

  it.effect("reads about as many rows as it may change, in any number of those that are pending or have ended", () =>
    stored((_, run) =>
      Effect.gen(function*() {
        yield* run(deliveries(10_000, "now() - interval '3 days' + n * interval '1 second'"))
        yield* run("UPDATE webhook_endpoint_deliveries SET due_at = NULL, delivered_at = now()")
        yield* run(deliveries(10_000, "now() - interval '2 days' + n * interval '1 second'"))
        yield* run("UPDATE webhook_endpoint_deliveries SET due_at = NULL, dropped = 'backlog' WHERE due_at IS NOT NULL")
        yield* run(deliveries(10_000, "now() - interval '1 day' + n * interval '1 second'"))
        yield* run("ANALYZE webhook_endpoint_deliveries, webhook_endpoint_bodies, webhook_endpoints")
        const at = yield* now
        const oldest = plus(at, "-7 days")
        const page = ["one", 0, 100]
        const statements: ReadonlyArray<readonly [string, ReadonlyArray<unknown>]> = [
          [Upkeep.resumePending.text, [...page, at, oldest]],
          [Upkeep.resumeFailed.text, [...page, at, oldest]],
          [Upkeep.dropOld.text, [...page, at]],
          [Upkeep.dropBacklog.text, [...page, plus(at, "-12 hours"), ...Upkeep.bindWalked([])]],
          [Upkeep.backlog.text, [...page, at, ...Upkeep.bindWalked([])]]
        ]
        for (const [text, values] of statements) assert.isAtMost(yield* rowsRead(text, values), 500, text)
      })
    ))

  it.effect("delays no statement of clients while its own takes long", () =>
    stored((store, run) =>
      Effect.gen(function*() {
        const sql = yield* SqlClient.SqlClient
        const past = Timestamp.make(0)
        const upkeep = yield* onSignal(
          Effect.all([store.deleteBefore(past, 10), store.health], { concurrency: "unbounded" })
        )
        const reads = yield* onSignal(
          Effect.forEach(Array.from({ length: 60 }), () => store.get("one"), { concurrency: "unbounded" })
        )
        yield* sql.withTransaction(Effect.gen(function*() {
          yield* run("LOCK webhook_endpoint_deliveries IN ACCESS EXCLUSIVE MODE")
          upkeep.signal.openUnsafe()
          yield* Database.isBlocked()
          reads.signal.openUnsafe()
          assert.lengthOf(yield* Fiber.join(reads.fiber), 60)
        }))
        yield* Fiber.join(upkeep.fiber)
      })
    ))
})
