import { assert, layer } from "@effect/vitest"
import { Duration, Effect, Exit, Fiber, Latch, Option } from "effect"
import { SqlClient } from "effect/sql"
import { fromText, OpaqueJson, toText } from "../../src/domain/json/OpaqueJson.ts"
import { TaskEvent } from "../../src/domain/Task.ts"
import { now } from "../../src/domain/Timestamp.ts"
import { TaskStore } from "../../src/services/store/tasks/TaskStore.ts"
import { WebhookStore } from "../../src/services/store/webhooks/WebhookStore.ts"
import { runQueueContract } from "../kit/RunQueueContract.ts"
import { commit, contradicts, eventOf, makeTask, newRunId, stored } from "../kit/StoredTasks.ts"
import { called, unlimited } from "../kit/StoredWebhooks.ts"
import { layerSql } from "../kit/StoreLayers.ts"
import { contract } from "../kit/TaskStoreContract.ts"

layer(layerSql)("the queue on Postgres", runQueueContract)

layer(layerSql)(
  "the stores on Postgres",
  (it) => {
    contract(it)

    it.effect("leave no row that contradicts its status", () =>
      Effect.gen(function*() {
        const sql = yield* SqlClient.SqlClient
        const [counted] = yield* sql.unsafe(
          `SELECT count(*) > 100 AS many, count(*) FILTER (WHERE ${contradicts})::int AS wrong
          FROM tasks`
        )
        assert.deepStrictEqual(counted, { many: true, wrong: 0 })
      }))

    it.effect("creates in one statement have separate outcomes: a failed one affects no other", () =>
      Effect.gen(function*() {
        const writes = yield* TaskStore
        const reads = yield* TaskStore
        const taken = yield* makeTask()
        yield* writes.create(taken, 5)
        const huge = OpaqueJson.make(JSON.stringify("x".repeat(100_000)))
        const tasks = yield* Effect.forEach(
          Array.from({ length: 40 }, (_, index) => index),
          (index) => makeTask(index === 20 ? { uuid: taken.uuid } : index === 30 ? { request: huge } : {})
        )
        const exits = yield* Effect.forEach(tasks, (task) => Effect.exit(writes.create(task, 5)), {
          concurrency: "unbounded"
        })
        assert.deepStrictEqual(exits.flatMap((exit, index) => Exit.isFailure(exit) ? [index] : []), [20])
        for (const task of tasks.filter((_, index) => index !== 20)) {
          const found = Option.getOrThrow(yield* reads.get(task.uuid))
          assert.strictEqual(found.sub, task.principal.sub)
          assert.strictEqual(found.runId, task.runId)
        }
      }))

    it.effect("long texts of a task keep their bytes", () =>
      Effect.gen(function*() {
        const writes = yield* TaskStore
        const reads = yield* TaskStore
        const long = (name: string) => fromText(JSON.stringify([name, "€".repeat(900_000)]))
        const task = yield* stored({ request: long("request") })
        const pending = Option.getOrThrow(yield* reads.pendingRun(task.uuid))
        assert.strictEqual(toText(pending.request), toText(task.request))
        yield* writes.commit(task.uuid, yield* eventOf("Accepted"), yield* now)
        const [turn, toolCalls, state] = [long("turn"), long("calls"), long("state")]
        yield* writes.commit(task.uuid, TaskEvent.cases.Interrupted.make({ turn, toolCalls, state }), yield* now)
        const interrupted = Option.getOrThrow(yield* reads.get(task.uuid))
        assert.deepStrictEqual(
          [interrupted.turn, interrupted.pendingToolCalls].map((json) => json && toText(json)),
          [turn, toolCalls].map(toText)
        )
        const submitted = TaskEvent.cases.ToolResultsSubmitted.make({
          results: long("results"),
          runId: yield* newRunId,
          principal: task.principal,
          userToken: "sealed-again"
        })
        yield* writes.commit(task.uuid, submitted, yield* now)
        const { resume } = Option.getOrThrow(yield* reads.pendingRun(task.uuid))
        assert.deepStrictEqual(
          [resume?.state, resume?.results].map((json) => json && toText(json)),
          [toText(state), toText(long("results"))]
        )
        // Nothing of them remains for the next statement of the connection.
        const other = yield* stored({ request: fromText(JSON.stringify("x".repeat(100_000))) })
        yield* writes.commit(other.uuid, yield* eventOf("Accepted"), yield* now)
        const large = fromText(JSON.stringify("x".repeat(100_000)))
        const completed = TaskEvent.cases.Completed.make({ turn: large })
        yield* writes.commit(other.uuid, completed, yield* now)
        const { pendingToolCalls, turn: kept } = Option.getOrThrow(yield* reads.get(other.uuid))
        assert.deepStrictEqual([kept && toText(kept), pendingToolCalls], [toText(large), null])
      }), 60_000)

    it.effect("a claim of webhooks says that it left a delivery that another session had locked", () =>
      Effect.gen(function*() {
        const sql = yield* SqlClient.SqlClient
        const store = yield* WebhookStore
        const { origin, uuid: locked } = yield* called()
        const { uuid: free } = yield* called(null, `${origin}/other`)
        for (const uuid of [locked, free]) yield* commit(uuid, "Completed")
        const leases = [Duration.seconds(20)]
        const claim = Effect.flatMap(
          now,
          (at) =>
            store.claim({
              at,
              lostBefore: at,
              limit: 10,
              leases,
              permits: {
                ...unlimited,
                byOrigin: new Map([[origin, { permits: 2, isProven: true }]]),
                ofProven: 0,
                ofUnproven: 0
              }
            })
        )
        const isLocked = yield* Latch.make()
        const isClaimed = yield* Latch.make()
        const other = yield* sql`SELECT FROM webhook_deliveries WHERE task_uuid = ${locked} FOR UPDATE`.pipe(
          Effect.andThen(isLocked.open),
          Effect.andThen(isClaimed.await),
          sql.withTransaction,
          Effect.forkChild
        )
        yield* isLocked.await
        const first = yield* claim
        assert.deepStrictEqual([first.deliveries.map(({ taskId }) => taskId), first.hasMore], [[free], true])
        assert.deepStrictEqual(yield* claim, { deliveries: [], hasMore: false, oldest: null })
        yield* isClaimed.open
        yield* Fiber.join(other)
        const last = yield* claim
        assert.deepStrictEqual([last.deliveries.map(({ taskId }) => taskId), last.hasMore], [[locked], false])
      }))
  }
)
