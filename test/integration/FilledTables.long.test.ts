/** A session keeps the plans that it makes while the tables look empty: they must do for tables that have filled since. */
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { now } from "../../src/domain/Timestamp.ts"
import { TaskStore } from "../../src/services/store/tasks/TaskStore.ts"
import { commit, makeTask } from "../kit/StoredTasks.ts"
import { layerSql } from "../kit/StoreLayers.ts"

const atOnce = { concurrency: "unbounded" } as const
/** Rows that Postgres adds by itself, without the sessions' knowledge. */
const rows = 20_000

const insert = (status: "processing" | "completed") =>
  `INSERT INTO tasks (uuid, sub, status, run_id, max_execution_time, created_at, deadline_at, completed_at, token_id, assistant_id)
  SELECT gen_random_uuid(), 'other-' || n, '${status}', gen_random_uuid(), 60, now(), now(),
    CASE '${status}' WHEN 'completed' THEN now() END, 'token', 1 FROM generate_series(1, ${rows}) AS n`

const create = Effect.fnUntraced(function*(count: number) {
  const store = yield* TaskStore
  const tasks = yield* Effect.forEach(
    Array.from({ length: count }),
    () => makeTask({ callbackUrl: "https://client.example/" })
  )
  yield* Effect.forEach(tasks, (task) => store.create(task, 5, { value: "key", fingerprint: "print" }), atOnce)
  return tasks
})

/** The second event changes nothing. */
const commitTwice = (tasks: Effect.Success<ReturnType<typeof create>>, event: string) =>
  Effect.forEach(
    ["Accepted", "Accepted"] as const,
    (tag, index) =>
      Effect.forEach(tasks, ({ runId, uuid }) => commit(uuid, tag, { runId, coreEventId: event + index }), atOnce)
  )

/** Milliseconds of the fastest of three. */
const fastest = Effect.fnUntraced(function*<A, E, R>(effect: Effect.Effect<A, E, R>) {
  let least = Infinity
  for (let round = 0; round < 3; round++) {
    const startedAt = performance.now()
    yield* effect
    least = Math.min(least, performance.now() - startedAt)
  }
  return least
})

describe("batches of creates and events", () => {
  it.effect.each(["never analyzed", "analyzed when all tasks had ended"])(
    "read no index whole after the tables filled that were %s",
    (state) =>
      Effect.gen(function*() {
        const sql = yield* SqlClient.SqlClient
        for (const table of ["tasks", "idempotency_keys", "webhook_deliveries"]) {
          yield* sql.unsafe(`ALTER TABLE ${table} SET (autovacuum_enabled = off)`)
        }
        if (state !== "never analyzed") {
          yield* sql.unsafe(insert("completed"))
          yield* sql`VACUUM (ANALYZE)`
        }
        // Every session plans each statement.
        for (let round = 0; round < 12; round++) {
          for (const tag of ["Interrupted", "Canceled"] as const) {
            for (const { uuid } of yield* create(3)) yield* commit(uuid, tag)
          }
          yield* commitTwice(yield* create(3), `warm-up-${round}-`)
        }
        yield* sql.unsafe(insert("processing"))
        yield* sql`INSERT INTO idempotency_keys (sub, key, fingerprint, task_uuid, expires_at)
          SELECT 'other-' || n, 'key', 'print', gen_random_uuid(), now() + interval '1 day' FROM generate_series(1, ${rows}) AS n`
        // A whole index for each row takes at least 300 ms.
        assert.isBelow(yield* fastest(create(64)), 200)
        const tasks = yield* create(64)
        const events = Effect.flatMap(now, (at) => commitTwice(tasks, `event-${at}-${Math.random()}-`))
        assert.isBelow(yield* fastest(events), 200)
      }).pipe(Effect.provide(layerSql)),
    120_000
  )

  it.effect(
    "count the tasks of a user once, beside entries of ended tasks that a long transaction keeps",
    () =>
      Effect.gen(function*() {
        const sql = yield* SqlClient.SqlClient
        const store = yield* TaskStore
        const { principal } = yield* makeTask()
        // A count for each of 256 creates takes at least 400 ms.
        yield* sql.unsafe(insert("processing"))
        yield* sql`UPDATE tasks SET sub = ${principal.sub}`
        const transaction = yield* Effect.acquireRelease(
          sql.reserve,
          (other) => Effect.orDie(other.execute("ROLLBACK", [], undefined))
        )
        yield* transaction.execute("BEGIN ISOLATION LEVEL REPEATABLE READ", [], undefined)
        yield* transaction.execute("SELECT FROM tasks LIMIT 1", [], undefined)
        yield* sql`UPDATE tasks SET status = 'completed', completed_at = now()`
        const createMany = Effect.gen(function*() {
          const tasks = yield* Effect.forEach(Array.from({ length: 256 }), () => makeTask({ principal }))
          yield* Effect.forEach(tasks, (task) => store.create(task, 1000), atOnce)
        })
        assert.isBelow(yield* fastest(createMany), 200)
      }).pipe(Effect.scoped, Effect.provide(layerSql)),
    120_000
  )
})
