/** Compares the rows of a cell's tasks with the observations from outside, after all work has ended. */
import postgres from "postgres"
import {
  statusAfter,
  stopReasonOf,
  targetOf,
  type TaskEventTag,
  type TaskId,
  type TaskStatus
} from "../../src/domain/Task.ts"
import * as TaskShard from "../../src/domain/TaskShard.ts"
import { deliveryId, sendsWebhook } from "../../src/domain/Webhook.ts"
import { selectShardCounts } from "../kit/ClusterSystem.ts"
import { eventually } from "../kit/Service.ts"
import { contradicts } from "../kit/StoredTasks.ts"
import type { Recorder } from "./Recorder.ts"

/** Longer than three lost attempts of a delivery. */
const timeout = 120_000
const sampleInterval = 50

interface Change {
  readonly task_uuid: TaskId
  readonly revision: number
  readonly type: TaskEventTag
  readonly status: TaskStatus
}

const isEnd = (status: TaskStatus) => status === "completed" || status === "failed" || status === "canceled"

/** Checks one task's events: each is a legal transition, revisions are in order, and none follows the end. */
const checkHistory = (recorder: Recorder, uuid: string, changes: ReadonlyArray<Change>) => {
  let status: TaskStatus = "pending"
  changes.forEach((change, index) => {
    const step = `${status} → ${change.type} → ${change.status} at revision ${change.revision}`
    if (isEnd(status)) recorder.broke("twice terminal", uuid, step)
    else if (
      change.revision !== index + 1 || statusAfter(status, change.type) === undefined ||
      targetOf(change.type) !== change.status
    ) {
      recorder.broke("stale write", uuid, step)
    }
    status = change.status
  })
}

const checkDeliveries = (recorder: Recorder, uuid: TaskId, changes: ReadonlyArray<Change>, hasTarget: boolean) => {
  const reporting = hasTarget ? changes.filter(({ status }) => sendsWebhook(status)) : []
  for (const { revision, status } of reporting) {
    const id = deliveryId({ taskId: uuid, revision })
    const posts = recorder.posts.get(id) ?? []
    if (posts.length < 1 || posts.length > 5) recorder.broke("delivery", id, `${posts.length} POSTs`)
    if (!recorder.taken.has(id)) recorder.broke("delivery", id, "the target never accepted it")
    if (new Set(posts).size > 1) recorder.broke("delivery", id, "the bytes differ")
    for (const post of posts) {
      if (JSON.parse(post).status !== status) recorder.broke("delivery", id, `${status}, but the body is ${post}`)
    }
  }
  const expected = new Set(reporting.map(({ revision }) => deliveryId({ taskId: uuid, revision })))
  for (const id of recorder.posts.keys()) {
    if (id.startsWith(uuid) && !expected.has(id)) recorder.broke("delivery", id, "no change caused it")
  }
}

export class Rows {
  readonly #sql: postgres.Sql

  constructor(databaseUrl: string) {
    this.#sql = postgres(databaseUrl, { max: 3, onnotice: () => {}, connect_timeout: 2 })
  }

  /** Checks the number of each user's active tasks, and that no task contradicts its status, continuously. */
  watch(recorder: Recorder) {
    let isAsking = false
    let samples = 0
    const sampling = setInterval(async () => {
      if (isAsking) return
      isAsking = true
      const over = await this.#sql`SELECT sub, count(*)::int AS active FROM tasks
        WHERE status IN ('pending', 'processing', 'interrupted') GROUP BY sub HAVING count(*) > 5`.catch(() =>
        undefined
      )
      // The database may be away, but not all the time.
      if (over !== undefined) samples++
      for (const { active, sub } of over ?? []) recorder.broke("over limit", sub, `${active} active tasks`)
      const wrong = await this.#sql`SELECT uuid, status FROM tasks WHERE ${this.#sql.unsafe(contradicts)}`.catch(
        () => []
      )
      for (const { status, uuid } of wrong) recorder.broke("stale write", uuid, `other columns contradict ${status}`)
      isAsking = false
    }, sampleInterval)
    return () => {
      clearInterval(sampling)
      if (samples === 0) recorder.broke("over limit", "nobody", "no sample was taken")
    }
  }

  /** Keeps a snapshot open, as a backup does, until the result is run. */
  async keepSnapshot() {
    const session = await this.#sql.reserve()
    await session`BEGIN ISOLATION LEVEL REPEATABLE READ`
    await session`SELECT FROM tasks LIMIT 1`
    return async () => {
      await session`ROLLBACK`
      session.release()
    }
  }

  /** Leaves what as many webhooks leave while a snapshot is open. No node sees them. */
  async sendWebhooks(count: number) {
    await this.#sql.begin(async (sql) => {
      await sql`
        INSERT INTO webhook_deliveries (task_uuid, revision, status, sub, url, origin, signed, created_at, due_at)
        SELECT gen_random_uuid(), 1, 'completed', 'past', 'http://past.example', 'http://past.example', false, now(), now()
        FROM generate_series(1, ${count}::int)`
      await sql`UPDATE webhook_deliveries SET attempts = 1, sending = true, due_at = now() WHERE sub = 'past'`
      await sql`DELETE FROM webhook_deliveries WHERE sub = 'past'`
    })
  }

  /** Whether each of `nodes` nodes holds its share of the shards. */
  async areDivided(nodes: number) {
    const counts = await this.#sql.unsafe<Array<{ count: number }>>(selectShardCounts)
    return counts.length === nodes && counts.every(({ count }) => count >= Math.floor(TaskShard.count / nodes))
  }

  /** Whether a run waits for room; it may while the database is away. */
  async hasWaiting() {
    const [found] = await this.#sql`SELECT EXISTS (SELECT FROM waiting_runs) AS waits`.catch(() => [])
    return found?.["waits"] !== false
  }

  /** Waits until no task, delivery or stop request is pending, then checks every acknowledged task. */
  async check(recorder: Recorder) {
    const sql = this.#sql
    const uuids = [...recorder.acknowledged.keys()]
    const pending = async () => {
      const [left] = await sql`SELECT
        ARRAY(SELECT uuid::text FROM tasks WHERE uuid = ANY(${uuids}::uuid[]) AND completed_at IS NULL) AS tasks,
        ARRAY(SELECT task_uuid || '-' || revision FROM webhook_deliveries
          WHERE task_uuid = ANY(${uuids}::uuid[]) AND due_at IS NOT NULL) AS deliveries,
        ARRAY(SELECT run_id::text FROM core_stops WHERE task_uuid = ANY(${uuids}::uuid[])) AS stops`
      return left as unknown as Readonly<Record<"tasks" | "deliveries" | "stops", ReadonlyArray<string>>>
    }
    const isQuiet = (left: Awaited<ReturnType<typeof pending>>) =>
      Object.values(left).every(({ length }) => length === 0)
    const left = await eventually(pending, isQuiet, timeout).catch(pending)
    for (const uuid of left.tasks) recorder.broke("stuck", uuid, "has not ended")
    for (const id of left.deliveries) recorder.broke("delivery", id, "is still due")
    for (const runId of left.stops) recorder.broke("stop", runId, "is still pending")

    const tasks = await sql<ReadonlyArray<{ uuid: TaskId; run_id: string; has_target: boolean }>>`
      SELECT uuid, run_id, callback_url IS NOT NULL AS has_target FROM tasks WHERE uuid = ANY(${uuids}::uuid[])`
    const found = new Set<string>(tasks.map(({ uuid }) => uuid))
    for (const uuid of uuids) if (!found.has(uuid)) recorder.broke("lost", uuid, "there is no such row")

    const changes = await sql<ReadonlyArray<Change>>`SELECT task_uuid, revision, type, status FROM task_events
      WHERE task_uuid = ANY(${uuids}::uuid[]) ORDER BY task_uuid, revision`
    const byTask = Map.groupBy(changes, ({ task_uuid }) => task_uuid)
    for (const { has_target, run_id, uuid } of tasks) {
      const history = byTask.get(uuid) ?? []
      checkHistory(recorder, uuid, history)
      checkDeliveries(recorder, uuid, history, has_target)
      const last = history.at(-1)
      const owesStop = last !== undefined && stopReasonOf(last.type) !== undefined
      if (owesStop && recorder.runsOf(uuid).includes(run_id) && !recorder.stopped.has(run_id)) {
        recorder.broke("stop", run_id, `the core got no stop request after ${last.type}`)
      }
    }
  }

  async close() {
    await this.#sql.end()
  }
}
