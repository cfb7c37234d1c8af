import { assert, layer } from "@effect/vitest"
import { Duration, Effect, Exit, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import { fromValue } from "../../../src/domain/json/OpaqueJson.ts"
import { TaskEvent } from "../../../src/domain/Task.ts"
import { fromMicros, now, plus } from "../../../src/domain/Timestamp.ts"
import * as Migrations from "../../../src/services/store/schema/Migrations.ts"
import { TaskStore } from "../../../src/services/store/tasks/TaskStore.ts"
import { encodeReport } from "../../../src/services/usage/UsageReport.ts"
import * as UsageSql from "../../../src/services/usage/UsageSql.ts"
import { UsageStore } from "../../../src/services/usage/UsageStore.ts"
import { call, eventOf, stored } from "../../kit/StoredTasks.ts"
import { layerSql } from "../../kit/StoreLayers.ts"
import { contract } from "../../kit/usage/UsageContract.ts"

const layerUsage = UsageSql.layer.pipe(Layer.provideMerge(layerSql))

layer(layerUsage)("usage on Postgres", contract)

layer(layerUsage)("the trigger of usage", (it) => {
  const turn = fromValue({})
  const report = (input: number) =>
    encodeReport({ model: "m", tokens: { input, output: 1, total: input + 1, cached: 0, reasoning: 0 } })
  const completed = (input: number) => TaskEvent.cases.Completed.make({ turn, report: report(input) })

  it.effect("writes nothing while its extension is off, and later counts what was reported meanwhile", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const writes = yield* TaskStore
      const store = yield* UsageStore
      const [done, interrupted] = [yield* stored(), yield* stored()]
      const interrupt = TaskEvent.cases.Interrupted.make({
        toolCalls: fromValue([call]),
        state: null,
        turn,
        report: report(10)
      })
      yield* sql`UPDATE task_event_readers SET is_enabled = false`
      assert.strictEqual((yield* writes.commit(done.uuid, completed(10), yield* now))._tag, "Applied")
      yield* Layer.build(Layer.fresh(Migrations.enableReaders(["usage"])))
      assert.isEmpty(yield* sql`SELECT FROM usage_outbox`)

      assert.strictEqual((yield* writes.commit(interrupted.uuid, interrupt, yield* now))._tag, "Applied")
      yield* writes.commit(interrupted.uuid, yield* eventOf("ToolResultsSubmitted"), yield* now)
      yield* writes.commit(interrupted.uuid, completed(30), yield* now)
      assert.deepStrictEqual((yield* store.book(10)).map(({ inputTokens }) => inputTokens), [30])
      assert.strictEqual((yield* store.ofTask(interrupted.uuid))?.inputTokens, 30)
    }))

  it.effect("sees the task as the events left it, and fails the commit when it fails", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const writes = yield* TaskStore
      const seen = "CREATE TABLE seen (revision integer, status text, turn text, error text)"
      const onEvents = `INSERT INTO seen SELECT t.revision, t.status, u.turn, t.error FROM new_events e
        JOIN tasks t ON t.uuid = e.task_uuid AND t.revision = e.revision JOIN task_turns u ON u.task_uuid = t.uuid;`
      const extension = { name: "watcher", migrations: [[seen]], onEvents }
      yield* TestClock.withLive(Layer.build(Migrations.layer([extension])))
      const failed = TaskEvent.cases.Failed.make({ error: "broken", turn })
      yield* writes.commit((yield* stored()).uuid, failed, yield* now)
      assert.deepStrictEqual(yield* sql`SELECT * FROM seen`, [
        { revision: 1, status: "failed", turn: "{}", error: "broken" }
      ])
      yield* sql`DROP TABLE seen`
      const last = yield* stored()
      assert.isTrue(Exit.isFailure(yield* Effect.exit(writes.commit(last.uuid, failed, yield* now))))
      assert.isEmpty(yield* sql`SELECT FROM task_events WHERE task_uuid = ${last.uuid}`)
      yield* sql`DROP TRIGGER async_task_service_watcher ON task_events`
      assert.strictEqual((yield* writes.commit(last.uuid, failed, yield* now))._tag, "Applied")
    }))
})

layer(layerUsage)("prices", (it) => {
  const setPrices = (prices: Readonly<Record<string, number>> | undefined) =>
    Effect.gen(function*() {
      const models = Object.entries(prices ?? {}).map(([model, input]) => [model, { input, output: 0 }])
      const given = prices && { currency: "EUR", models: Object.fromEntries(models) }
      const store = yield* UsageStore
      yield* store.setPrices(given, yield* now)
      yield* TestClock.adjust("1 second")
    })
  const end = (model: string) =>
    Effect.gen(function*() {
      const task = yield* stored()
      const tokens = { input: 1_000_000, output: 0, total: 1_000_000, cached: 0, reasoning: 0 }
      const completed = TaskEvent.cases.Completed.make({ turn: fromValue({}), report: encodeReport({ model, tokens }) })
      const writes = yield* TaskStore
      assert.strictEqual((yield* writes.commit(task.uuid, completed, yield* now))._tag, "Applied")
      yield* TestClock.adjust("1 second")
      return task.uuid
    })

  it.effect("hold for what is used while they are set, whenever it is booked", () =>
    Effect.gen(function*() {
      const store = yield* UsageStore
      const sql = yield* SqlClient.SqlClient
      const unpriced = yield* end("m")
      yield* setPrices({ m: 1, other: 5 })
      const first = yield* end("m")
      yield* setPrices({ m: 1, other: 5 })
      yield* setPrices({ m: 2 })
      const [second, dropped] = [yield* end("m"), yield* end("other")]
      yield* setPrices(undefined)
      const last = yield* end("m")
      yield* setPrices({ m: 3, other: 5 })
      const expected = [null, "1", "2", null, null]
      const costs = Effect.forEach(
        [unpriced, first, second, dropped, last],
        (uuid) => Effect.map(store.ofTask(uuid), (usage) => usage?.cost)
      )
      const read = Effect.map(
        Effect.flatMap(now, (to) =>
          store.read({
            from: fromMicros(0),
            to: plus(to, Duration.hours(1)),
            step: "total",
            groupBy: [],
            order: "period",
            limit: null,
            assistantId: null,
            sub: null
          })),
        ({ totals: { cost, unpricedTokens } }) => [cost, unpricedTokens]
      )
      assert.deepStrictEqual([yield* costs, yield* read], [expected, ["3", 3_000_000]])
      yield* store.book(10)
      assert.isEmpty(yield* sql`SELECT FROM usage_outbox`)
      assert.deepStrictEqual([yield* costs, yield* read], [expected, ["3", 3_000_000]])
      // A start with the same prices adds nothing, and one at an earlier moment, as of a clock that went back, counts.
      yield* store.setPrices({ currency: "EUR", models: { m: { input: 4, output: 0 } } }, fromMicros(0))
      const again = yield* end("m")
      assert.strictEqual((yield* store.ofTask(again))?.cost, "4")
      assert.lengthOf(yield* sql`SELECT FROM usage_prices`, 9)
    }))
})
