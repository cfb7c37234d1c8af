/**
 * Changes of tasks in Postgres: group commits of creates and of events. `commit_tasks` locks and checks all rows, and then writes the
 * events, the turns and the outbox rows (webhook, stop), by the rules of `domain/Task`.
 */
import { PgTypes } from "@effect/sql-pg"
import { Effect, Schema } from "effect"
import { isLarge } from "../../../domain/json/OpaqueJson.ts"
import * as Limits from "../../../domain/Limits.ts"
import { Room, type RunId, TaskEvent, TaskHead, TaskId } from "../../../domain/Task.ts"
import { changeOf, type TaskChange } from "../../../domain/TaskChange.ts"
import { IdempotencyKeyReused, TooManyActiveTasks } from "../../../domain/TaskErrors.ts"
import { plus, type Timestamp } from "../../../domain/Timestamp.ts"
import { sendsWebhook } from "../../../domain/Webhook.ts"
import { Changes } from "../../signals/Changes.ts"
import * as Batcher from "../sql/Batcher.ts"
import * as Batch from "../sql/BatchStatement.ts"
import { array, make as makeQueries, moment, query } from "../sql/Queries.ts"
import { given, headColumns, headColumnsOf, notEnded } from "./TaskColumns.ts"
import {
  type Commit,
  type Fence,
  type NewTask,
  noQueue,
  partOf,
  type QueueEntry,
  type RequestKey,
  type TaskStore
} from "./TaskStore.ts"

type Store = TaskStore["Service"]

const { float8, int4, uuid } = PgTypes.OID

interface Create {
  readonly task: NewTask
  readonly maxActive: number
  readonly key: RequestKey | undefined
  readonly entry: QueueEntry
}

const Created = Schema.Struct({
  outcome: Schema.Literals(["created", "replayed", "key_reused", "too_many_active_tasks"]),
  taskId: TaskId,
  room: Schema.NullOr(Room),
  /** The user's limit of active tasks. */
  maximum: Schema.Int
})

const createTasks = Batch.make<Create, typeof Created>(
  Created,
  "create_tasks",
  `called.outcome, called.task_uuid AS "taskId", called.room, called.maximum`,
  {
    ...Object.fromEntries(given.map(({ name, of, ...type }) => [name, { ...type, of: ({ task }) => of(task) }])),
    request: Batch.json(({ task }) => task.request),
    user_token: Batch.text(({ task }) => task.userToken),
    callback_secret: Batch.text(({ task }) => task.callbackSecret),
    metadata: {
      ...Batch.text(({ task }) => task.metadata === null ? null : JSON.stringify(task.metadata)),
      as: (bound) => `${bound}::jsonb`
    },
    max_active: Batch.int4(({ maxActive }) => maxActive),
    spared: Batch.int4(({ task }) => task.sparedSlots),
    key: Batch.text(({ key }) => key?.value),
    fingerprint: Batch.text(({ key }) => key?.fingerprint),
    key_expires_at: Batch.moment(({ key, task }) =>
      key === undefined ? null : plus(task.createdAt, key.keptFor ?? Limits.idempotencyKeyTtl)
    ),
    waits: Batch.bool(({ entry }) => entry.waits),
    core_runs: Batch.int4(({ entry }) => entry.limits.runs),
    assistant_runs: Batch.int4(({ entry }) => entry.limits.runsPerAssistant)
  }
)

interface Event {
  readonly uuid: TaskId
  readonly event: TaskEvent
  readonly change: TaskChange
  readonly at: Timestamp
  readonly fence: Fence | undefined
  readonly key: RequestKey | undefined
  readonly waits: boolean
  /** Characters of its texts, or bytes. An event that is large has a statement of its own, so that batches stay small. */
  readonly length: number
}

const Committed = Schema.Union([
  Schema.Struct({ outcome: Schema.Literal("Unknown") }),
  Schema.Struct({
    ...TaskHead.fields,
    outcome: Schema.Literals(["Applied", "NoEffect", "Superseded", "Revoked"]),
    hasCallback: Schema.Boolean,
    recordedAcceptance: Schema.Boolean
  })
])

const commitTasks = Batch.make<Event, typeof Committed>(
  Committed,
  "commit_tasks",
  `called.outcome, called.has_first AS "recordedAcceptance", (called.head).callback_url IS NOT NULL AS "hasCallback", ${
    headColumnsOf("(called.head)")
  }`,
  {
    uuid: Batch.uuid(({ uuid }) => uuid),
    run_id: Batch.uuid(({ fence }) => fence?.runId),
    core_event_id: Batch.text(({ fence }) => fence?.coreEventId),
    at: Batch.moment(({ at }) => at),
    type: Batch.text(({ event }) => event._tag),
    records_acceptance: Batch.bool(({ fence }) => fence?.recordsAcceptance === true),
    error: Batch.text(({ change }) => change.error),
    pending_tool_calls: Batch.json(({ change }) => change.pendingToolCalls),
    turn: Batch.json(({ change }) => change.turn),
    report: Batch.text(({ change }) => change.report),
    core_state: Batch.json(({ change }) => change.coreState),
    new_run_id: Batch.uuid(({ change }) => change.run?.runId),
    tool_results: Batch.json(({ change }) => change.run?.results),
    user_token: Batch.text(({ change }) => change.run?.userToken),
    token_id: Batch.text(({ change }) => change.run?.principal.tokenId),
    token_issued_at: Batch.seconds(({ change }) => change.run?.principal.issuedAt),
    key: Batch.text(({ key }) => key?.value),
    fingerprint: Batch.text(({ key }) => key?.fingerprint),
    waits: Batch.bool(({ waits }) => waits),
    actor: Batch.text(({ change }) => change.author)
  }
)

interface Attempt {
  readonly uuid: TaskId
  readonly runId: RunId
  readonly deadline: Timestamp
}

/** The present head; null for a task that was deleted. */
const Present = Schema.Union([Schema.Struct({ uuid: Schema.Null }), TaskHead])

const startAcceptance = Batch.make<Attempt, typeof Present>(Present, "start_acceptance", headColumnsOf("called"), {
  uuid: Batch.uuid(({ uuid }) => uuid),
  run_id: Batch.uuid(({ runId }) => runId),
  deadline: Batch.moment(({ deadline }) => deadline)
})(false)

/** A row that is locked is being changed, so its run lives. */
const claimSilent = query(
  TaskHead,
  `WITH asked AS (
    SELECT * FROM unnest(@ids::uuid[], @revisions::int[], @events::float8[], @dispatches::int[]) AS asked (id, revision, last_event, hand_overs)
  ), found AS (
    SELECT tasks.uuid AS id FROM asked JOIN tasks ON tasks.uuid = asked.id
    WHERE tasks.completed_at IS NULL ORDER BY tasks.uuid FOR NO KEY UPDATE OF tasks SKIP LOCKED
  )
  UPDATE tasks SET hand_overs = asked.hand_overs + 1 FROM found JOIN asked USING (id)
  WHERE tasks.uuid = id AND status = 'processing' AND tasks.revision = asked.revision
    AND coalesce(tasks.hand_overs, 0) = asked.hand_overs AND last_event_at <= ${moment("asked.last_event")}
  RETURNING ${headColumns}`
)

/** `OFFSET` hides the status, which would make the planner read the deadlines of all users. */
const interrupted = query(
  TaskHead,
  `SELECT ${headColumns} FROM (SELECT * FROM tasks WHERE sub = $1 AND ${notEnded} OFFSET 0) AS tasks
  WHERE status = 'interrupted'`
)

/** Ids of tasks are not case-sensitive. */
const lockOf = ({ uuid }: { readonly uuid: TaskId }) => uuid.toLowerCase()

export const make = Effect.gen(function*() {
  const { rows } = yield* makeQueries
  const { publish, webhooks } = yield* Changes

  const insert = yield* Batcher.make({
    run: (creates: ReadonlyArray<Create>) => {
      const query = createTasks(creates.some(({ task }) => isLarge(task.request)))
      return rows(query, query.bind(creates))
    },
    // `create_tasks` locks the user, and counts once for rows of a user that follow one another.
    lockOf: ({ task }) => task.principal.sub,
    kindOf: ({ task }) => isLarge(task.request) ? "large" : "batch",
    lengthOf: ({ task }) => task.request.length
  })

  const create: Store["create"] = Effect.fnUntraced(function*(task, maxActive, key, entry = noQueue) {
    const { maximum, outcome, room, taskId } = yield* insert({ task, maxActive, key, entry })
    if (outcome === "too_many_active_tasks") return yield* new TooManyActiveTasks({ maximum })
    if (outcome === "key_reused") return yield* new IdempotencyKeyReused({})
    return { taskId, isReplay: outcome === "replayed", room }
  })

  const write = yield* Batcher.make<Event, Commit>({
    run: Effect.fnUntraced(function*(events: ReadonlyArray<Event>) {
      const query = commitTasks(events.some(isLarge))
      const outcomes = yield* rows(query, query.bind(events))
      return yield* Effect.forEach(outcomes, (row, index): Effect.Effect<Commit> => {
        if (row.outcome === "Unknown") return Effect.succeed({ _tag: "Unknown" })
        const { hasCallback, outcome, recordedAcceptance, ...head } = row
        if (outcome !== "Applied") return Effect.succeed({ _tag: outcome, head })
        if (hasCallback && sendsWebhook(head.status)) webhooks.due(events[index]!.at)
        return Effect.as(publish(head.uuid, head), { _tag: outcome, head, recordedAcceptance })
      })
    }),
    keyOf: lockOf,
    lockOf,
    // An idempotency key is a second lock, whose order is not that of the tasks. A statement with one row cannot deadlock, since it takes the key's lock after the task's.
    kindOf: (event) => isLarge(event) ? "large" : event.key === undefined ? "batch" : "single",
    lengthOf: ({ length }) => length
  })

  const commit: Store["commit"] = (uuid, event, at, fence, key, waits = false) => {
    const change = changeOf(event)
    const { coreState, error, pendingToolCalls, run, turn } = change
    const length = [turn, coreState, pendingToolCalls, error, run?.results].reduce(
      (sum, text) => sum + (text?.length ?? 0),
      0
    )
    return write({ uuid, event, change, at, fence, key, waits, length })
  }

  const start = yield* Batcher.make({
    run: (attempts: ReadonlyArray<Attempt>) =>
      Effect.map(
        rows(startAcceptance, startAcceptance.bind(attempts)),
        (heads) => heads.map((head) => head.uuid === null ? undefined : head)
      ),
    lockOf
  })

  const cancelInterrupted: Store["cancelInterrupted"] = Effect.fnUntraced(function*(sub, at, author) {
    const event = TaskEvent.cases.Canceled.make({ reason: null, author })
    const commits = yield* Effect.forEach(
      yield* rows(interrupted, [sub]),
      ({ uuid }) => commit(uuid, event, at),
      { concurrency: Batcher.maxBatch }
    )
    return commits.flatMap((outcome) => outcome._tag === "Applied" ? [outcome.head] : [])
  })

  return partOf({
    create,
    commit,
    cancelInterrupted,
    claimSilent: (runs) =>
      rows(claimSilent, {
        ids: array(runs.map(({ uuid }) => uuid), uuid),
        revisions: array(runs.map(({ revision }) => revision), int4),
        events: array(runs.map(({ lastEventAt }) => lastEventAt), float8),
        dispatches: array(runs.map(({ redispatches }) => redispatches ?? 0), int4)
      }),
    startAcceptance: (uuid, runId, deadline) => start({ uuid, runId, deadline })
  })
})
