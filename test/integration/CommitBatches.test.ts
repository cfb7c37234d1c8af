import { assert, layer } from "@effect/vitest"
import { Effect, Exit, Fiber, Layer, Option } from "effect"
import { SqlClient } from "effect/sql"
import { fromValue, OpaqueJson } from "../../src/domain/json/OpaqueJson.ts"
import { isTerminal, RunId, stopReasonOf, TaskEvent, TaskId } from "../../src/domain/Task.ts"
import { changeOf } from "../../src/domain/TaskChange.ts"
import { now } from "../../src/domain/Timestamp.ts"
import { Changes } from "../../src/services/signals/Changes.ts"
import { type NewTask, TaskStore } from "../../src/services/store/tasks/TaskStore.ts"
import * as TaskStoreSql from "../../src/services/store/tasks/TaskStoreSql.ts"
import * as Database from "../kit/Database.ts"
import { makeTask } from "../kit/StoredTasks.ts"
import { layerSql } from "../kit/StoreLayers.ts"
import * as TaskModel from "../kit/TaskModel.ts"

type Node = TaskStore["Service"]

/** The store of another node, with its own connections to the same database. */
const otherNode = Effect.flatMap(
  Layer.build(
    TaskStoreSql.layer.pipe(
      Layer.provide([Database.layerLive(Layer.orDie(Database.layerClient)), Changes.layer]),
      Layer.fresh
    )
  ),
  (context) => Effect.provide(TaskStore, context)
)

const { cases } = TaskEvent
const count = 60

const turnOf = (task: NewTask, text: string) => fromValue([task.uuid, text])
const wrongRun = RunId.make("01a2013d-0000-7000-8000-000000000000")

/** Events of one task that race with each other, and with themselves when they are reported twice. */
const racersOf = (task: NewTask) => {
  const { runId } = task
  const progressed = cases.Progressed.make({ turn: turnOf(task, "partial") })
  const completed = cases.Completed.make({ turn: turnOf(task, "completed") })
  return [
    { event: cases.Accepted.make({}), fence: { runId, coreEventId: "accepted" } },
    { event: progressed, fence: { runId, coreEventId: "progressed" } },
    { event: completed, fence: { runId, coreEventId: "completed" } },
    { event: cases.Failed.make({ error: task.uuid, turn: null }), fence: { runId, coreEventId: "failed" } },
    { event: cases.TimeLimitExceeded.make({ error: task.uuid }), fence: { runId } },
    { event: cases.Withdrawn.make({ reason: task.uuid }), fence: { runId } },
    {
      event: cases.Completed.make({ turn: turnOf(task, "wrong run") }),
      fence: { runId: wrongRun, coreEventId: "wrong run" }
    }
  ]
}

layer(layerSql)("tasks of two nodes", (it) => TaskModel.contract(it, Effect.all([TaskStore, otherNode])))

layer(layerSql)("batches of commits on Postgres", (it) => {
  it.effect(`applies the racing events of ${count} tasks on two nodes as if each came alone`, () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const nodes = [yield* TaskStore, yield* otherNode]
      const tasks = yield* Effect.replicateEffect(
        makeTask({ callbackUrl: "https://client.example/hook", callbackSecret: "sealed" }),
        count
      )
      yield* Effect.forEach(tasks, (task) => nodes[0]!.create(task, 5), { concurrency: "unbounded" })
      const at = yield* now
      // Of every second task the last racers come first, so that it is withdrawn.
      const reports = tasks.flatMap((task, index) => {
        const racers = racersOf(task).map((racer) => ({ task, ...racer }))
        return index % 2 === 0 ? racers : racers.toReversed()
      })
      // The second node reports all events too, in the opposite order.
      const outcomes = yield* Effect.forEach(
        [...reports.map((report) => ({ ...report, node: 0 })), ...reports.toReversed().map((r) => ({ ...r, node: 1 }))],
        ({ event, fence, node, task }) =>
          Effect.map(
            nodes[node]!.commit(task.uuid, event, at, fence),
            (commit) => ({ commit, event, isWrongRun: fence.runId === wrongRun, task })
          ),
        { concurrency: "unbounded" }
      )

      for (const task of tasks) {
        const ours = outcomes.filter((outcome) => outcome.task === task)
        const heads = ours.flatMap(({ commit }) => commit._tag === "Unknown" ? [] : [commit.head])
        assert.deepStrictEqual([...new Set(heads.map(({ uuid }) => uuid))], [task.uuid])
        assert.strictEqual(heads.length, ours.length)
        const applied = ours.filter(({ commit }) => commit._tag === "Applied")
        assert.isFalse(applied.some(({ isWrongRun }) => isWrongRun))
        assert.strictEqual(new Set(applied.map(({ event }) => event._tag)).size, applied.length)
        const ends = applied.filter(({ commit }) => commit._tag === "Applied" && isTerminal(commit.head.status))
        assert.strictEqual(ends.length, 1)

        const found = Option.getOrThrow(yield* nodes[1]!.get(task.uuid))
        const events = yield* nodes[0]!.eventsAfter(task.uuid, 0, 100)
        assert.strictEqual(found.revision, applied.length)
        assert.deepStrictEqual(events.map(({ revision }) => revision), applied.map((_, index) => index + 1))
        assert.sameMembers(events.map(({ type }) => type), applied.map(({ event }) => event._tag))
        const [{ event: end } = assert.fail()] = ends
        assert.strictEqual(events.at(-1)?.type, end._tag)
        assert.strictEqual(found.error, changeOf(end).error)
        const hasProgressed = applied.some(({ event }) => event._tag === "Progressed")
        const partial = hasProgressed ? turnOf(task, "partial") : null
        assert.strictEqual(found.turn, end._tag === "Completed" ? turnOf(task, "completed") : partial)
      }

      const rows = yield* sql<
        { readonly deliveries: number; readonly stops: number; readonly secrets: number }
      >`SELECT
        (SELECT count(*)::int FROM webhook_deliveries JOIN tasks ON uuid = task_uuid
          AND webhook_deliveries.status = tasks.status AND callback_secret = 'sealed') AS deliveries,
        (SELECT count(*)::int FROM core_stops) AS stops,
        (SELECT count(*)::int FROM task_requests WHERE user_token <> ''
          OR callback_secret || core_state || tool_results IS NOT NULL) AS secrets`
      const stopped = outcomes.filter(({ commit, event }) =>
        commit._tag === "Applied" && stopReasonOf(event._tag) !== undefined
      )
      assert.isAbove(stopped.length, 0)
      assert.deepStrictEqual(rows, [{ deliveries: count, stops: stopped.length, secrets: 0 }])
    }).pipe(Effect.scoped))

  it.effect("statements of two nodes do not lock each other out", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const nodes = [yield* TaskStore, yield* otherNode]
      const tasks = yield* Effect.replicateEffect(makeTask(), count)
      yield* Effect.forEach(tasks, (task) => nodes[0]!.create(task, 5), { concurrency: "unbounded" })
      const at = yield* now
      const accept = (node: Node, tasks: ReadonlyArray<NewTask>) =>
        Effect.forkScoped(Effect.forEach(
          tasks,
          ({ uuid }) => node.commit(uuid, cases.Accepted.make({}), at),
          { concurrency: "unbounded" }
        ))
      const fibers = yield* sql.withTransaction(Effect.gen(function*() {
        // Both statements have to wait in the middle of their rows.
        yield* sql`SELECT FROM tasks WHERE uuid = ${tasks[count / 2]!.uuid}::uuid FOR UPDATE`
        const fibers = [yield* accept(nodes[0]!, tasks), yield* accept(nodes[1]!, tasks.toReversed())]
        yield* Database.isBlocked(2)
        return fibers
      }))
      const outcomes = yield* Effect.forEach(fibers, Fiber.join)
      assert.strictEqual(outcomes.flat().filter(({ _tag }) => _tag === "Applied").length, count)
      const rows = yield* sql`SELECT deadlocks::int FROM pg_stat_database WHERE datname = current_database()`
      assert.deepStrictEqual(rows, [{ deadlocks: 0 }])
    }).pipe(Effect.scoped))

  it.effect("creates of one user on two nodes count each other, also while neither has committed", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const nodes = [yield* TaskStore, yield* otherNode]
      const { principal } = yield* makeTask()
      const create = (node: Node) =>
        Effect.forkScoped(Effect.forEach(
          [1, 2, 3, 4, 5],
          () => Effect.flatMap(makeTask({ principal }), (task) => Effect.exit(node.create(task, 5))),
          { concurrency: "unbounded" }
        ))
      const fibers = yield* sql.withTransaction(Effect.gen(function*() {
        // A statement that has counted and inserted waits here, before it commits.
        yield* sql`LOCK TABLE task_requests IN SHARE MODE`
        const fibers = [yield* create(nodes[0]!), yield* create(nodes[1]!)]
        yield* Database.isBlocked(2)
        return fibers
      }))
      const exits = (yield* Effect.forEach(fibers, Fiber.join)).flat()
      assert.strictEqual(exits.filter(Exit.isSuccess).length, 5)
      const rows = yield* sql`SELECT count(*)::int AS active FROM tasks WHERE sub = ${principal.sub}`
      assert.deepStrictEqual(rows, [{ active: 5 }])
    }).pipe(Effect.scoped))

  it.effect("a row that fails affects no other row of its statement", () =>
    Effect.gen(function*() {
      const repository = yield* TaskStore
      const tasks = yield* Effect.replicateEffect(makeTask(), 20)
      yield* Effect.forEach(tasks, (task) => repository.create(task, 5), { concurrency: "unbounded" })
      const at = yield* now
      const exits = yield* Effect.forEach(tasks, (task, index) => {
        // Postgres refuses a text with this character.
        const turn = index === 7 ? OpaqueJson.make(`"\u0000"`) : turnOf(task, "completed")
        return Effect.exit(repository.commit(task.uuid, cases.Completed.make({ turn }), at))
      }, { concurrency: "unbounded" })
      assert.deepStrictEqual(exits.flatMap((exit, index) => Exit.isFailure(exit) ? [index] : []), [7])
      const found = yield* Effect.forEach(tasks, ({ uuid }) => repository.get(uuid), { concurrency: "unbounded" })
      for (const [index, task] of tasks.entries()) {
        const turn = index === 7 ? null : turnOf(task, "completed")
        assert.deepStrictEqual(Option.map(found[index]!, (task) => task.turn), Option.some(turn))
      }
    }))

  it.effect("reads of one turn answer each request, also for large turns and tasks that do not exist", () =>
    Effect.gen(function*() {
      const repository = yield* TaskStore
      const large = yield* makeTask()
      const small = yield* makeTask()
      const missing = yield* makeTask()
      const at = yield* now
      for (const [task, length] of [[large, 100_000], [small, 10]] as const) {
        yield* repository.create(task, 5)
        yield* repository.commit(task.uuid, cases.Completed.make({ turn: turnOf(task, "x".repeat(length)) }), at)
      }
      const upperCase = TaskId.make(small.uuid.toUpperCase())
      const found = yield* Effect.forEach(
        [small.uuid, missing.uuid, large.uuid, upperCase],
        (uuid) => repository.get(uuid),
        {
          concurrency: "unbounded"
        }
      )
      assert.deepStrictEqual(found.map(Option.map(({ turn }) => turn)), [
        Option.some(turnOf(small, "x".repeat(10))),
        Option.none(),
        Option.some(turnOf(large, "x".repeat(100_000))),
        Option.some(turnOf(small, "x".repeat(10)))
      ])
    }))
})
