/** The searches of operators on Postgres. */
import { assert, layer, type Vitest } from "@effect/vitest"
import { Duration, Effect, Layer, Option, Schema } from "effect"
import { TestClock } from "effect/testing"
import { fromValue, OpaqueJson } from "../../../src/domain/json/OpaqueJson.ts"
import { Revocation } from "../../../src/domain/Revocation.ts"
import { TaskEvent, type TaskId } from "../../../src/domain/Task.ts"
import { now, plus, Timestamp } from "../../../src/domain/Timestamp.ts"
import { deliveryId } from "../../../src/domain/Webhook.ts"
import {
  errorLength,
  OperatorStore,
  type Page,
  type Position,
  type Range,
  type TaskSearch
} from "../../../src/services/operator/OperatorStore.ts"
import * as OperatorStoreSql from "../../../src/services/operator/OperatorStoreSql.ts"
import { allDeliveries, allTasks } from "../../../src/services/operator/Selection.ts"
import { RevocationRepository } from "../../../src/services/store/revocations/RevocationRepository.ts"
import { TaskStore } from "../../../src/services/store/tasks/TaskStore.ts"
import { commit, stored } from "../../kit/StoredTasks.ts"
import { called, claim, record } from "../../kit/StoredWebhooks.ts"
import { layerSql } from "../../kit/StoreLayers.ts"

const layerStores = Layer.provideMerge(OperatorStoreSql.layer, layerSql)

type StoreTests = Vitest.MethodsNonLive<Layer.Success<typeof layerStores>>

const { Accepted, Completed, Failed, Interrupted } = TaskEvent.cases

/** Each test has a day of its own, so that it finds its own rows only. */
let days = 0
const newRange = (): Range => {
  const from = Timestamp.make((999_999_960 + ++days * 86_400) * 1_000_000)
  return { from, to: plus(from, "1 day") }
}

const anything = { ...allTasks, after: null, limit: 50 } as const

const failed = Effect.fnUntraced(function*(at: Timestamp, error: string, sub = `user-${at}-${error.length}`) {
  const writes = yield* TaskStore
  const task = yield* stored({ createdAt: at, principal: { sub, tokenId: "token", issuedAt: 1 } })
  yield* writes.commit(task.uuid, Failed.make({ error, turn: null }), at)
  return task.uuid
})

const idsOf = (page: Page<{ readonly uuid: TaskId }>) => page.rows.map(({ uuid }) => uuid)

/** Reads all pages; `between` runs after each. */
const readAll = Effect.fnUntraced(function*<Row, E, R>(
  read: (after: Position | null) => Effect.Effect<Page<Row>, E, R>,
  between: Effect.Effect<unknown, E, R>
) {
  const found: Array<Row> = []
  let after: Position | null = null
  do {
    const page: Page<Row> = yield* read(after)
    found.push(...page.rows)
    after = page.next
    yield* between
  } while (after !== null)
  return found
})

const Steps = Schema.Array(Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 3 }))).check(Schema.isMaxLength(12))
const Limit = Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 5 }))

const contractOfPages = (it: StoreTests) => {
  it.effect.prop(
    "pages of tasks are complete and free of repeats while tasks are added and end",
    [Steps, Limit, Schema.Literals(["created", "failed", "live"])],
    ([steps, limit, order]) =>
      Effect.gen(function*() {
        const store = yield* OperatorStore
        const writes = yield* TaskStore
        const range = newRange()
        let second = 0
        // Several tasks share a moment.
        const add = (step: number) =>
          Effect.gen(function*() {
            second += step
            const createdAt = plus(range.from, `${second} seconds`)
            const task = yield* stored({ createdAt })
            if (order === "live") yield* writes.commit(task.uuid, Accepted.make({}), createdAt)
            if (order === "failed") yield* writes.commit(task.uuid, Failed.make({ error: "no", turn: null }), createdAt)
            return task.uuid
          })
        const before = yield* Effect.forEach(steps, add)
        const status = { created: null, failed: "failed", live: "processing" } as const
        const search: TaskSearch = { ...anything, ...range, limit, status: status[order] }
        const found = yield* readAll((after) => store.tasks({ ...search, after }), add(1))
        const ids = found.map(({ uuid }) => uuid)
        assert.strictEqual(new Set(ids).size, ids.length)
        // Those that were added meanwhile are newer than the first page.
        assert.sameMembers([...ids], before)
        const moments = found.map(({ createdAt }) => createdAt)
        if (order !== "live") assert.deepStrictEqual(moments, moments.toSorted((one, other) => other - one))
      }),
    { arbitrary: { runs: 12 } }
  )

  it.effect("finds tasks by user, status, error and range, and their rows", () =>
    Effect.gen(function*() {
      const store = yield* OperatorStore
      const writes = yield* TaskStore
      const range = newRange()
      const at = plus(range.from, "1 hour")
      const sub = `sub-${at}`
      const no = yield* failed(at, "no", sub)
      const long = "x".repeat(errorLength)
      const other = yield* failed(plus(at, "1 second"), `${long} and more`, sub)
      const stranger = yield* failed(plus(at, "2 seconds"), "no")
      const asking = yield* stored({ createdAt: at, callbackUrl: "https://u:p@client.example/secret?k=v" })
      const call = { id: "c", name: "look", arguments: { key: "canary" } }
      yield* writes.commit(asking.uuid, Interrupted.make({ toolCalls: fromValue([call]), state: null, turn: null }), at)
      const done = yield* stored({ createdAt: at })
      yield* writes.commit(done.uuid, Completed.make({ turn: OpaqueJson.make(`{"output":[]}`) }), plus(at, "3 seconds"))
      const find = (more: Partial<TaskSearch>) => Effect.map(store.tasks({ ...anything, ...range, ...more }), idsOf)
      assert.sameMembers([...(yield* find({}))], [no, other, stranger, asking.uuid, done.uuid])
      assert.deepStrictEqual(yield* find({ sub }), [other, no])
      assert.deepStrictEqual(yield* find({ status: "failed" }), [stranger, other, no])
      assert.deepStrictEqual(yield* find({ status: "failed", error: "no" }), [stranger, no])
      assert.deepStrictEqual(yield* find({ status: "failed", error: "X".repeat(100) }), [other])
      assert.deepStrictEqual(yield* find({ status: "failed", error: "%" }), [])
      assert.deepStrictEqual(yield* find({ status: "failed", fingerprint: "n…" }), [stranger, no])
      assert.deepStrictEqual(yield* find({ status: "failed", fingerprint: "n" }), [])
      assert.deepStrictEqual(yield* find({ text: sub.toUpperCase() }), [other, no])
      assert.deepStrictEqual(yield* find({ text: "XXXX" }), [other])
      assert.deepStrictEqual(yield* find({ text: "_" }), [])
      assert.deepStrictEqual(yield* find({ text: done.uuid.slice(-7) }), [done.uuid])
      const elsewhere = { from: range.to, to: plus(range.to, "1 hour") }
      for (const text of [done.uuid, `${done.uuid.slice(0, 8)}…${done.uuid.slice(-6)}`]) {
        assert.deepStrictEqual(yield* find({ ...elsewhere, text }), [done.uuid], text)
      }
      assert.deepStrictEqual(yield* find({ sub, status: "failed", error: "no" }), [no])
      assert.deepStrictEqual(yield* find({ status: "interrupted" }), [asking.uuid])
      assert.deepStrictEqual(yield* find({ status: "completed" }), [done.uuid])
      assert.deepStrictEqual(yield* find({ status: "failed", to: plus(at, "1 second") }), [no])
      assert.deepStrictEqual(yield* find({ from: plus(at, "1 second"), sub }), [other])
      const { rows: [row] } = yield* store.tasks({ ...anything, ...range, status: "interrupted" })
      assert.deepStrictEqual([row?.pendingTools, row?.completedAt], [["look"], null])
      const { rows: [, cut] } = yield* store.tasks({ ...anything, ...range, status: "failed" })
      assert.strictEqual(cut?.error, long)
      const detail = Option.getOrThrow(yield* store.task(done.uuid))
      assert.deepStrictEqual([detail.head.revision, detail.head.runId, detail.turnBytes], [1, done.runId, 13])
      assert.isAbove(detail.requestBytes ?? 0, 10)
      const failures = yield* store.failures(range)
      assert.deepStrictEqual(failures.map(({ uuid }) => uuid), [stranger, other, no])
    }))
}

const contractOfWebhooks = (it: StoreTests) => {
  it.effect("finds runs without progress, those without it for longest first", () =>
    Effect.gen(function*() {
      const store = yield* OperatorStore
      const writes = yield* TaskStore
      const { from } = newRange()
      const at = (minutes: number) => plus(from, Duration.minutes(minutes))
      const [quiet, lively, asking, late] = yield* Effect.forEach([1, 0, 0, 2], (minute) =>
        stored({ createdAt: at(minute) }))
      yield* writes.commit(quiet!.uuid, Accepted.make({}), at(3))
      yield* writes.commit(lively!.uuid, Accepted.make({}), at(50))
      yield* writes.commit(asking!.uuid, Interrupted.make({ toolCalls: fromValue([]), state: null, turn: null }), at(1))
      const { runs, total } = yield* store.stuck(at(10), 100)
      const own = runs.filter(({ createdAt }) =>
        createdAt >= from
      )
      assert.deepStrictEqual(own.map(({ progressAt, uuid }) => [uuid, progressAt]), [[late!.uuid, at(2)], [
        quiet!.uuid,
        at(3)
      ]])
      assert.isAtLeast(total, 2)
      assert.lengthOf((yield* store.stuck(at(10), 1)).runs, 1)
    }))

  it.effect("finds deliveries by origin, state, error and range, and counts them by origin", () =>
    Effect.gen(function*() {
      const store = yield* OperatorStore
      yield* TestClock.adjust("7 days")
      const range = { from: yield* now, to: plus(yield* now, "1 hour") }
      const url = "http://operators.example/hook?secret=canary"
      const tasks = yield* Effect.forEach([1, 2, 3], () => called(null, url))
      const { origin } = tasks[0]!
      for (const { uuid } of tasks) {
        yield* TestClock.adjust("1 second")
        yield* commit(uuid, "Completed")
      }
      const ids = tasks.map(({ uuid }) => deliveryId({ taskId: uuid, revision: 1 }))
      const search = { ...allDeliveries, ...range, origin, after: null, limit: 2 }
      const found = yield* readAll((after) => store.deliveries({ ...search, after }), Effect.void)
      assert.deepStrictEqual(found.map(deliveryId), ids.toReversed())
      // The first fails for good, the second is delivered, the third stays pending.
      for (let attempt = 0; attempt < 5; attempt++) {
        const claimed = yield* claim(origin)
        for (const delivery of claimed) {
          const [first, second] = tasks
          if (delivery.taskId === first!.uuid) yield* record(delivery, "timed_out")
          if (delivery.taskId === second!.uuid) yield* record(delivery, null)
        }
        yield* TestClock.adjust("150 seconds")
      }
      const find = (more: object) =>
        Effect.map(store.deliveries({ ...search, ...more }), ({ rows }) => rows.map(deliveryId))
      assert.deepStrictEqual(yield* find({ state: "failed" }), [ids[0]])
      assert.deepStrictEqual(yield* find({ state: "delivered" }), [ids[1]])
      assert.deepStrictEqual(yield* find({ error: "timed_out" }), [ids[0]])
      assert.deepStrictEqual(yield* find({ state: "failed", error: "tls_failed" }), [])
      assert.deepStrictEqual(yield* find({ origin: "http://other.example" }), [])
      assert.deepStrictEqual(yield* find({ to: range.from }), [])
      const matching = yield* store.keys({ ...search, state: "failed" }, null, 10_000)
      assert.deepStrictEqual(matching.rows.map(({ id }) => id), [ids[0]])
      const { origins } = yield* store.origins(range)
      const ours = origins.find((stats) => stats.origin === origin)
      assert.deepStrictEqual([ours?.failed, ours?.lastError], [1, "timed_out"])
      assert.strictEqual(ours?.oldestFailedAt, found.at(-1)?.createdAt)
    }))
}

const contractOfLists = (it: StoreTests) => {
  it.effect("lists the next deadlines and the pending stops", () =>
    Effect.gen(function*() {
      const store = yield* OperatorStore
      const at = Timestamp.make(-1_000_000 * ++days)
      const task = yield* stored({ createdAt: at, acceptanceDeadline: plus(at, 1), deadline: plus(at, 2) })
      const clocks = (yield* store.clocks(200)).filter(({ uuid }) => uuid === task.uuid)
      assert.deepStrictEqual(clocks.map(({ clock, dueAt }) => [clock, dueAt]), [
        ["acceptance", plus(at, 1)],
        ["time_limit", plus(at, 2)]
      ])
      yield* commit(task.uuid, "TimeLimitExceeded")
      assert.isFalse((yield* store.clocks(200)).some(({ uuid }) => uuid === task.uuid))
      const stop = (yield* store.stops(10_000)).find(({ taskId }) => taskId === task.uuid)
      assert.deepStrictEqual([stop?.reason, stop?.attempts], ["time_limit_exceeded", 0])
    }))

  it.effect("lists revocations, newest first", () =>
    Effect.gen(function*() {
      const revocations = yield* RevocationRepository
      const store = yield* OperatorStore
      const name = `listed-${process.pid}-${++days}`
      const { Token, User } = Revocation.cases
      const token = Token.make({ tokenId: `jti:${name}`, expiresAt: null })
      const user = User.make({ sub: name, issuedBefore: Timestamp.make(1_000_000), expiresAt: null })
      yield* revocations.add(token)
      yield* TestClock.adjust("1 second")
      yield* revocations.add(user)
      const all = yield* store.revocations(null, 10_000)
      const found = all.filter(({ id }) => id.includes(name))
      assert.deepStrictEqual(found.map(({ revocation }) => revocation), [user, token])
      const rest = yield* store.revocations(found[0]!, 10_000)
      assert.deepStrictEqual(rest.filter(({ id }) => id.includes(name)).map(({ revocation }) => revocation), [token])
      assert.lengthOf(yield* store.revocations(null, 1), 1)
    }))

  it.effect("adds counts to minutes, sums them over periods, and deletes old ones", () =>
    Effect.gen(function*() {
      const { history } = yield* OperatorStore
      const { from } = newRange()
      const at = (seconds: number) => plus(from, `${seconds} seconds`)
      yield* history.add(at(0), { created: 2, late_ms_max: 7 })
      yield* history.add(at(59), { created: 3, failed: 1, late_ms_max: 5 })
      yield* history.add(at(61), { created: 1, late_ms_max: 9 })
      const byName = (
        points: ReadonlyArray<{ readonly name: string; readonly period: number; readonly value: number }>
      ) => points.map(({ name, period, value }) => `${name} ${period} ${value}`).toSorted()
      assert.deepStrictEqual(byName(yield* history.series(from, 60, 5)), [
        "created 0 5",
        "created 1 1",
        "failed 0 1",
        "late_ms_max 0 7",
        "late_ms_max 1 9"
      ])
      assert.deepStrictEqual(byName(yield* history.series(from, 300, 1)), [
        "created 0 6",
        "failed 0 1",
        "late_ms_max 0 9"
      ])
      assert.deepStrictEqual(byName(yield* history.series(from, 60, 1)), [
        "created 0 5",
        "failed 0 1",
        "late_ms_max 0 7"
      ])
      while ((yield* history.deleteExpired(at(60), 1)) > 0);
      assert.deepStrictEqual(byName(yield* history.series(from, 60, 5)), ["created 1 1", "late_ms_max 1 9"])
    }))
}

layer(layerStores)("the store of operators", (it) => {
  contractOfPages(it)
  contractOfWebhooks(it)
  contractOfLists(it)
})
