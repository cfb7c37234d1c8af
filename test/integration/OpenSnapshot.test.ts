/**
 * While a session keeps a snapshot open, as a backup does, the index entries of rows that have left a queue remain. The cost of a claim
 * must not grow with them.
 */
import { assert, it } from "@effect/vitest"
import { Context, Duration, Effect, Layer, Schema } from "effect"
import { SecureRandom } from "effect/crypto"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import { now, plus, type Timestamp } from "../../src/domain/Timestamp.ts"
import * as SchedulesSql from "../../src/services/schedules/SchedulesSql.ts"
import { SchedulesStore } from "../../src/services/schedules/SchedulesStore.ts"
import { StopOutbox } from "../../src/services/store/StopOutbox.ts"
import * as StoredBytesSql from "../../src/services/store/StoredBytesSql.ts"
import { StoredBytesStore } from "../../src/services/store/StoredBytesStore.ts"
import { TaskNotifications } from "../../src/services/store/TaskNotifications.ts"
import { TaskRetention } from "../../src/services/store/TaskRetention.ts"
import { TaskScans } from "../../src/services/store/TaskScans.ts"
import * as TaskStoreSql from "../../src/services/store/TaskStoreSql.ts"
import { WebhookStore } from "../../src/services/store/WebhookStore.ts"
import * as UsageSql from "../../src/services/usage/UsageSql.ts"
import { UsageStore } from "../../src/services/usage/UsageStore.ts"
import { enqueueMany } from "../attack/kit/webhookCrowd.ts"
import * as Database from "../kit/Database.ts"
import { leases, unlimited } from "../kit/StoredWebhooks.ts"
import { layerFormats } from "../kit/WebhookStoreContract.ts"

/** Rows that left each queue. */
const ended = 20_000

const decodePlans = Schema.decodeUnknownSync(Schema.fromJsonString(Schema.Tuple([Schema.Struct({
  Plan: Schema.Struct({ "Shared Hit Blocks": Schema.Int, "Shared Read Blocks": Schema.Int })
})])))

/** Pages that the last statement read. */
class Pages
  extends Context.Service<Pages, { last: number }>()("async-task-service/test/integration/OpenSnapshot.test/Pages")
{}

/** A client that runs each statement to count its pages, and returns no rows. */
const layerMeasured = Layer.effectContext(Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  const pages = { last: 0 }
  const unsafe = (text: string, values?: ReadonlyArray<unknown>) =>
    Effect.map(
      sql.unsafe<{ readonly "QUERY PLAN": unknown }>(`EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) ${text}`, values),
      ([row]) => {
        const plan = row?.["QUERY PLAN"]
        const [{ Plan }] = decodePlans(typeof plan === "string" ? plan : JSON.stringify(plan))
        pages.last = Plan["Shared Hit Blocks"] + Plan["Shared Read Blocks"]
        return []
      }
    )
  // The stores use nothing else of it.
  const measured = Object.assign({}, sql, { unsafe }) as unknown as SqlClient.SqlClient
  return Context.make(SqlClient.SqlClient, measured).pipe(Context.add(Pages, pages))
}))

const layerStores = Layer.mergeAll(TaskStoreSql.layer, UsageSql.layer, StoredBytesSql.layer, SchedulesSql.layer).pipe(
  Layer.provide([layerFormats, TaskNotifications.layer, SecureRandom.layerWebCrypto]),
  Layer.provideMerge(layerMeasured)
)

const tasks = (count: number, state: string) =>
  `INSERT INTO tasks (uuid, sub, status, run_id, max_execution_time, created_at, deadline_at, completed_at, token_id, assistant_id)
  SELECT gen_random_uuid(), 'user-' || n, ${state}, 'token', 1 FROM generate_series(1, ${count}) AS n`

const schedules = (count: number, due: string) =>
  `INSERT INTO schedules (id, sub, definition, task, state, next_at, due_at, revision, version, token_id, authorized_at, task_failures,
    token_failures, created_at)
  SELECT gen_random_uuid(), 'user', '{}', '{}', 'active', ${due}, ${due}, 0, 1, 'token', now(), 0, 0, now()
  FROM generate_series(1, ${count})`

const past = "now() - interval '10 seconds'"

interface Queue {
  /** Inserts due rows. */
  readonly add: (count: number, due: string) => string
  /** What happens to rows until they have left the queue. */
  readonly leave: ReadonlyArray<string>
  readonly claim: (at: Timestamp, from: Timestamp) => Effect.Effect<
    unknown,
    unknown,
    WebhookStore | StopOutbox | UsageStore | TaskScans | TaskRetention | StoredBytesStore | SchedulesStore
  >
}

const webhooks: Queue = {
  add: (count, due) =>
    enqueueMany({ deliveries: count, targets: 10, sub: "user" }).replace(/now\(\) FROM placed/, `${due} FROM placed`),
  leave: [
    `UPDATE webhook_deliveries SET attempts = 1, sending = true, due_at = due_at + interval '35 seconds' WHERE due_at <= now()`,
    `UPDATE webhook_deliveries SET sending = false, due_at = NULL, delivered_at = now() WHERE due_at IS NOT NULL`
  ],
  claim: (at, from) =>
    Effect.flatMap(
      WebhookStore,
      (store) =>
        store.claim({
          at,
          from,
          lostBefore: at,
          limit: 64,
          leases,
          permits: { ...unlimited, ofUser: { total: 64, unproven: 64 } }
        })
    )
}

const queues: Readonly<Record<string, Queue>> = {
  webhooks,
  "stop requests": {
    add: (count, due) =>
      `INSERT INTO core_stops (run_id, task_uuid, reason, due_at)
      SELECT gen_random_uuid(), gen_random_uuid(), 'r', ${due} FROM generate_series(1, ${count})`,
    leave: [
      `UPDATE core_stops SET attempts = 1, due_at = due_at + interval '30 seconds'`,
      `DELETE FROM core_stops`
    ],
    claim: (at, from) => Effect.flatMap(StopOutbox, (store) => store.claim(at, Duration.seconds(30), 64, from))
  },
  usage: {
    add: (count, due) =>
      `INSERT INTO usage_outbox (task_uuid, revision, assistant_id, booked_at, active_seconds, sub, model, ended, tokens)
      SELECT gen_random_uuid(), 1, 1, ${due}, 1, 'user', 'm', 'completed', '{1,2,3,0,0}' FROM generate_series(1, ${count})`,
    leave: [`DELETE FROM usage_outbox`],
    claim: (_, from) => Effect.flatMap(UsageStore, (store) => store.book(2000, from))
  },
  "overdue tasks": {
    add: (count, due) => tasks(count, `'processing', gen_random_uuid(), 60, ${due}, ${due}, NULL`),
    leave: [`UPDATE tasks SET status = 'failed', completed_at = now()`],
    claim: (at, from) => Effect.flatMap(TaskScans, (scans) => scans.overdue(at, 500, from))
  },
  "ended tasks": {
    add: (count, due) => tasks(count, `'completed', gen_random_uuid(), 60, ${due}, ${due}, ${due}`),
    leave: [`DELETE FROM tasks`],
    claim: (at, from) => Effect.flatMap(TaskRetention, (retention) => retention.deleteEnded(at, 200, from))
  },
  "idempotency keys": {
    add: (count, due) =>
      `INSERT INTO idempotency_keys (sub, key, fingerprint, task_uuid, expires_at)
      SELECT 'user', gen_random_uuid(), 'f', gen_random_uuid(), ${due} FROM generate_series(1, ${count})`,
    leave: [`DELETE FROM idempotency_keys`],
    claim: (at, from) => Effect.flatMap(TaskRetention, (retention) => retention.deleteExpiredKeys(at, 200, from))
  },
  "counts of stored bytes": {
    add: (count, due) =>
      `INSERT INTO stored_bytes (sub, due_at)
      SELECT gen_random_uuid(), ${due} FROM generate_series(1, ${count})`,
    leave: [`UPDATE stored_bytes SET due_at = now() + interval '1 day'`],
    claim: (at, from) =>
      Effect.flatMap(StoredBytesStore, (store) => store.claim(at, plus(at, Duration.minutes(1)), 16, from))
  },
  schedules: {
    add: schedules,
    leave: [`UPDATE schedules SET next_at = now() + interval '1 day', due_at = now() + interval '1 day'`],
    claim: (at, from) => Effect.flatMap(SchedulesStore, (store) => store.due(at, 100, from))
  },
  "next schedule": {
    add: schedules,
    leave: [`UPDATE schedules SET state = 'ended', ended_at = now(), next_at = NULL, due_at = NULL`],
    claim: (_, from) => Effect.flatMap(SchedulesStore, (store) => store.nextDue(from))
  },
  "runs of schedules": {
    add: (count, due) =>
      `WITH made AS (${schedules(count, "now() + interval '1 day'")} RETURNING id)
      INSERT INTO schedule_runs (schedule_id, scheduled_for, outcome, attempt, try_at) SELECT id, ${due}, 'due', 1, ${due} FROM made`,
    leave: [`UPDATE schedule_runs SET outcome = 'created', try_at = NULL`],
    claim: (at, from) => Effect.flatMap(SchedulesStore, (store) => store.takeOver(at, Duration.minutes(1), 100, from))
  }
}

const pagesOf = Effect.fnUntraced(function*({ add, claim }: Queue, fresh: number) {
  const sql = yield* SqlClient.SqlClient
  return yield* Effect.gen(function*() {
    yield* sql.unsafe(add(fresh, "clock_timestamp()"))
    const at = yield* now
    yield* claim(at, plus(at, "-2 seconds"))
    return (yield* Pages).last
  }).pipe(Effect.provide(Layer.fresh(layerStores)))
})

const keepSnapshot = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  const other = yield* Effect.acquireRelease(
    sql.reserve,
    (other) => Effect.orDie(other.execute("ROLLBACK", [], undefined))
  )
  yield* other.execute("BEGIN ISOLATION LEVEL REPEATABLE READ", [], undefined)
  yield* other.execute("SELECT FROM pg_class LIMIT 1", [], undefined)
})

it.effect.each([
  ...Object.keys(queues).map((name) => [name, 20] as const),
  ["webhooks", 300] as const
])(
  "reads as few pages for %s (%i due) as before many left the queue",
  ([name, fresh]) =>
    TestClock.withLive(Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const queue = queues[name]!
      yield* sql.unsafe("SET enable_seqscan = off")
      const before = yield* pagesOf(queue, fresh)
      yield* keepSnapshot
      for (const statement of [queue.add(ended, past), ...queue.leave]) yield* sql.unsafe(statement)
      const after = yield* pagesOf(queue, fresh)
      // The index of many entries is two levels higher.
      assert.isAtMost(after, 2 * before + 8)
    })).pipe(Effect.scoped, Effect.provide(Database.layer))
)
