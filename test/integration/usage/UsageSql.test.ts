import { assert, layer } from "@effect/vitest"
import { Duration, Effect, Layer } from "effect"
import { SecureRandom } from "effect/crypto"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import { fromValue } from "../../../src/domain/OpaqueJson.ts"
import { TaskEvent } from "../../../src/domain/Task.ts"
import { fromMicros, now, plus } from "../../../src/domain/Timestamp.ts"
import { BooksUsage } from "../../../src/services/store/BooksUsage.ts"
import * as Migrations from "../../../src/services/store/Migrations.ts"
import * as RevocationRepositorySql from "../../../src/services/store/RevocationRepositorySql.ts"
import { TaskNotifications } from "../../../src/services/store/TaskNotifications.ts"
import * as TaskStoreSql from "../../../src/services/store/TaskStoreSql.ts"
import { TaskWrites } from "../../../src/services/store/TaskWrites.ts"
import { WebhooksPending } from "../../../src/services/store/WebhooksPending.ts"
import * as UsageSql from "../../../src/services/usage/UsageSql.ts"
import { UsageStore } from "../../../src/services/usage/UsageStore.ts"
import * as Database from "../../kit/Database.ts"
import { layerFirst } from "../../kit/firstSchema.ts"
import { call, eventOf, stored } from "../../kit/StoredTasks.ts"
import { contract } from "../../kit/usage/UsageContract.ts"
import { layerFormats } from "../../kit/WebhookStoreContract.ts"

layer(
  Layer.mergeAll(
    Layer.mergeAll(UsageSql.layer, TaskStoreSql.layer, RevocationRepositorySql.layer).pipe(
      Layer.provide([layerFormats, Layer.succeed(BooksUsage, true)]),
      Layer.provideMerge(Database.layer),
      Layer.provideMerge(TaskNotifications.layer)
    ),
    SecureRandom.layerWebCrypto
  )
)("usage on Postgres", contract)

const layerWrites = (booksUsage: boolean) =>
  Layer.fresh(TaskStoreSql.layer).pipe(Layer.provide([Layer.succeed(BooksUsage, booksUsage), WebhooksPending.layer]))

layer(
  Layer.provideMerge(
    Layer.mergeAll(UsageSql.layer, TaskNotifications.layer, SecureRandom.layerWebCrypto),
    Database.layer
  )
)("without an extension that books usage", (it) => {
  const turn = fromValue({})
  const usageOf = (input: number) => ({
    model: "m",
    tokens: { input, output: 1, total: input + 1, cached: 0, reasoning: 0 }
  })

  it.effect("nothing is written to the outbox, and what was reported meanwhile is booked once there is one", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const [done, interrupted] = yield* Effect.gen(function*() {
        const writes = yield* TaskWrites
        const [done, interrupted] = [yield* stored(), yield* stored()]
        const interrupt = TaskEvent.cases.Interrupted.make({
          toolCalls: fromValue([call]),
          state: null,
          turn,
          usage: usageOf(10)
        })
        const completed = TaskEvent.cases.Completed.make({ turn, usage: usageOf(10) })
        assert.strictEqual((yield* writes.commit(done.uuid, completed, yield* now))._tag, "Applied")
        assert.strictEqual((yield* writes.commit(interrupted.uuid, interrupt, yield* now))._tag, "Applied")
        return [done, interrupted] as const
      }).pipe(Effect.provide(layerWrites(false)))
      assert.isEmpty(yield* sql`SELECT FROM usage_outbox`)

      const store = yield* UsageStore
      yield* Effect.gen(function*() {
        const writes = yield* TaskWrites
        yield* writes.commit(interrupted.uuid, yield* eventOf("ToolResultsSubmitted"), yield* now)
        const completed = TaskEvent.cases.Completed.make({ turn, usage: usageOf(30) })
        yield* writes.commit(interrupted.uuid, completed, yield* now)
      }).pipe(Effect.provide(layerWrites(true)))
      assert.deepStrictEqual((yield* store.book(10)).map(({ inputTokens }) => inputTokens), [30])
      assert.strictEqual((yield* store.ofTask(interrupted.uuid))?.inputTokens, 30)
      assert.strictEqual((yield* store.ofTask(done.uuid))?.inputTokens, 0)
    }))
})

layer(
  Layer.mergeAll(
    Layer.mergeAll(UsageSql.layer, TaskStoreSql.layer).pipe(
      Layer.provide([layerFormats, Layer.succeed(BooksUsage, true)]),
      Layer.provideMerge(Database.layer),
      Layer.provideMerge(TaskNotifications.layer)
    ),
    SecureRandom.layerWebCrypto
  )
)("prices", (it) => {
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
      const completed = TaskEvent.cases.Completed.make({ turn: fromValue({}), usage: { model, tokens } })
      const writes = yield* TaskWrites
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

layer(layerFirst)(
  "a database with wide rows in the outbox",
  (it) => {
    it.effect("keeps them", () =>
      Effect.gen(function*() {
        const sql = yield* SqlClient.SqlClient
        yield* sql`INSERT INTO usage_outbox SELECT gen_random_uuid(), 'ann', 7, 'm', now(), 'completed', n = 1, 1, 2, 3, 4, 5, 6
          FROM generate_series(1, 2) n`
        yield* Layer.build(Migrations.layer())
        assert.deepStrictEqual(
          yield* sql`SELECT sub, assistant_id::int AS assistant, model, ended, active_seconds::int AS seconds, tokens::text
            FROM usage_outbox ORDER BY tokens`,
          ["{1,2,3,4,5}", null].map((tokens) => ({
            sub: "ann",
            assistant: 7,
            model: "m",
            ended: "completed",
            seconds: 6,
            tokens
          }))
        )
      }))
  }
)
