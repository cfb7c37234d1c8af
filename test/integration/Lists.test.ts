/** Lists of users with more tasks than one statement examines. */
import { assert, layer } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import { Timestamp } from "../../src/domain/Timestamp.ts"
import { Changes } from "../../src/services/signals/Changes.ts"
import { labelOf } from "../../src/services/store/tasks/ListStatement.ts"
import { type TaskFilter, TaskStore } from "../../src/services/store/tasks/TaskStore.ts"
import * as TaskStoreSql from "../../src/services/store/tasks/TaskStoreSql.ts"
import * as Database from "../kit/Database.ts"

const sub = "user"
const stored = 25_000

/** Tasks `from` to `to`, by the moment of their creation. Every 50th failed and is of the assistant 2, and every 4th has the label `odd`. */
const insert = Effect.fnUntraced(function*(from: number, to: number) {
  const sql = yield* SqlClient.SqlClient
  const created = (n: string) => `to_timestamp(1764000000 + ${n} / 1000000.0)`
  const pairs =
    `(VALUES ('project', 'p'), ('order', n::text), (CASE WHEN n % 4 = 0 THEN 'odd' END, 'yes')) AS pair (key, value)`
  yield* sql.unsafe(`
    INSERT INTO tasks (uuid, sub, run_id, status, completed_at, max_execution_time, created_at, deadline_at, token_id, assistant_id)
    SELECT ('01920000-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid, '${sub}', gen_random_uuid(), CASE WHEN n % 50 = 0 THEN 'failed' ELSE 'completed' END,
      now(), 60, ${created("n")}, now(), 'token', CASE WHEN n % 50 = 0 THEN 2 ELSE 1 END
    FROM generate_series(${from}, ${to}) AS n`)
  yield* sql.unsafe(`
    INSERT INTO task_labels
    SELECT ${labelOf(`'${sub}'::text`, "key", "value")}, ${
    created("n")
  }, ('01920000-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid
    FROM generate_series(${from}, ${to}) AS n CROSS JOIN LATERAL ${pairs} WHERE key IS NOT NULL`)
})

const layerTasks = Layer.provideMerge(
  Layer.effectDiscard(
    Effect.andThen(insert(1, stored), Effect.flatMap(SqlClient.SqlClient, (sql) => sql`VACUUM ANALYZE`))
  ),
  Layer.provideMerge(Layer.provide(TaskStoreSql.layerTasks, Changes.layer), Database.layer)
)

const list = (filter: Partial<TaskFilter>) =>
  Effect.gen(function*() {
    const store = yield* TaskStore
    const { tasks, total } = yield* store.list({ sub, statuses: [], page: 1, perPage: 3, ...filter })
    return [tasks.map(({ createdAt }) => createdAt % 1_000_000), total]
  })

/** A page of the tasks up to `newest` that are a multiple of `step`. */
const expected = (newest: number, step: number, page: number, perPage = 3) => {
  const matches = Array.from({ length: Math.floor(newest / step) }, (_, index) => (index + 1) * step).toReversed()
  return [matches.slice((page - 1) * perPage, page * perPage), matches.length]
}

layer(Layer.orDie(layerTasks))("a list of more tasks than one statement examines", (it) => {
  const lists = [
    ["all tasks", {}, 1],
    ["tasks with a status", { statuses: ["failed"] }, 50],
    ["tasks with several statuses", { statuses: ["failed", "completed"] }, 1],
    ["tasks with metadata that all have", { metadata: { project: "p" } }, 1],
    ["tasks with metadata that some have", { metadata: { odd: "yes" } }, 4],
    ["tasks with several pairs", { metadata: { project: "p", odd: "yes" } }, 4],
    ["tasks with metadata and a status", { metadata: { project: "p" }, statuses: ["failed"] }, 50],
    ["tasks with several pairs and a status", { metadata: { odd: "yes", project: "p" }, statuses: ["failed"] }, 100],
    ["tasks of an assistant", { assistantId: 2 }, 50],
    ["tasks of an assistant with a pair and a status", {
      assistantId: 2,
      metadata: { odd: "yes" },
      statuses: ["failed"]
    }, 100]
  ] as const

  for (const [title, filter, step] of lists) {
    it.effect(`has each page and the number of ${title}`, () =>
      Effect.gen(function*() {
        const last = Math.ceil(stored / step / 3)
        for (const page of [1, 2, 3333, 3334, 3335, 6667, last, last + 1, 1_000_000_000]) {
          assert.deepStrictEqual(yield* list({ ...filter, page }), expected(stored, step, page), `page ${page}`)
        }
      }))
  }

  it.effect("finds one task by a pair beside one that all have", () =>
    Effect.gen(function*() {
      assert.deepStrictEqual(yield* list({ metadata: { project: "p", order: "77" } }), [[77], 1])
      assert.deepStrictEqual(yield* list({ metadata: { project: "p", order: "78" }, statuses: ["failed"] }), [[], 0])
    }))

  it.effect("finds a status among tasks that are older than many others", () =>
    Effect.gen(function*() {
      const range = { from: Timestamp.make(1_764_000_000_000_001), to: Timestamp.make(1_764_000_000_005_001) }
      for (const more of [{}, { metadata: { project: "p" } }, { assistantId: 2 }]) {
        for (const page of [1, 34, 35]) {
          assert.deepStrictEqual(
            yield* list({ statuses: ["failed"], ...range, ...more, page }),
            expected(5000, 50, page)
          )
        }
      }
    }))

  it.effect("has no task of another user", () =>
    Effect.gen(function*() {
      assert.deepStrictEqual(yield* list({ sub: "other" }), [[], 0])
      assert.deepStrictEqual(yield* list({ sub: "other", metadata: { project: "p" } }), [[], 0])
    }))

  it.effect("has tasks that are created between two pages, and forgets deleted ones within half a minute", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const { metadata } = { metadata: { project: "p" } }
      const newest = stored + 7
      yield* insert(stored + 1, newest)
      for (const page of [1, 2, 3, 3334, 3336, 8335, 8336]) {
        assert.deepStrictEqual(yield* list({ page }), expected(newest, 1, page), `page ${page}`)
        assert.deepStrictEqual(yield* list({ metadata, page }), expected(newest, 1, page), `page ${page}`)
      }
      yield* insert(newest + 1, newest + 10_001)
      assert.deepStrictEqual(yield* list({ page: 8336 }), expected(newest + 10_001, 1, 8336))
      yield* sql`DELETE FROM tasks WHERE created_at = to_timestamp(1764000000.000001)`
      yield* TestClock.adjust("30 seconds")
      assert.deepStrictEqual((yield* list({}))[1], newest + 10_000)
    }))
})
