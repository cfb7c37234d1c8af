/** Changes of tasks in memory. */
import { Effect } from "effect"
import * as Limits from "../../../domain/Limits.ts"
import {
  isTerminal,
  needsValidToken,
  type RunId,
  statusAfter,
  TaskEvent,
  type TaskHead,
  type TaskId
} from "../../../domain/Task.ts"
import { changeOf } from "../../../domain/TaskChange.ts"
import { IdempotencyKeyReused, TooManyActiveTasks } from "../../../domain/TaskErrors.ts"
import * as TaskView from "../../../domain/TaskView.ts"
import { plus, type Timestamp } from "../../../domain/Timestamp.ts"
import { sendsWebhook } from "../../../domain/Webhook.ts"
import { Changes } from "../../signals/Changes.ts"
import { headOf, keyId, keyOf, liveRows, MemoryTables, summaryOf, type TaskRow } from "../MemoryTables.ts"
import * as RunQueueMemory from "../queue/RunQueueMemory.ts"
import { RevocationRepository } from "../revocations/RevocationRepository.ts"
import * as WebhookStoreMemory from "../webhooks/WebhookStoreMemory.ts"
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

type Tables = MemoryTables["Service"]

const storeKey = ({ keys }: Tables, sub: string, key: RequestKey, taskId: TaskId, at: Timestamp) =>
  keys.set(keyId(sub, key.value), {
    fingerprint: key.fingerprint,
    taskId,
    expiresAt: plus(at, key.keptFor ?? Limits.idempotencyKeyTtl)
  })

const insert = (task: NewTask): TaskRow => ({
  ...task,
  task,
  sub: task.principal.sub,
  status: "pending",
  revision: 0,
  error: null,
  completedAt: null,
  resumedAt: null,
  lastEventAt: null,
  redispatches: null,
  room: null,
  queueRevision: 0,
  pendingToolCalls: null,
  turn: null,
  coreState: null,
  toolResults: null,
  coreEventIds: new Set(),
  events: [{ revision: 0, type: "Created", status: "pending", occurredAt: task.createdAt, report: null, author: null }]
})

const create = Effect.fnUntraced(
  function*(tables: Tables, task: NewTask, maxActive: number, key: RequestKey | undefined, entry: QueueEntry) {
    const { createdAt, principal: { sub }, uuid } = task
    const before = key === undefined ? undefined : keyOf(tables, sub, key.value, createdAt)
    if (before !== undefined) {
      if (before.fingerprint !== key?.fingerprint) return yield* new IdempotencyKeyReused({})
      return { taskId: before.taskId, isReplay: true, room: null }
    }
    const active = liveRows(tables).filter((row) => row.task.principal.sub === sub)
    if (active.length >= maxActive - (task.sparedSlots ?? 0)) {
      return yield* new TooManyActiveTasks({ maximum: maxActive })
    }
    if (key !== undefined) storeKey(tables, sub, key, uuid, createdAt)
    const row = insert(task)
    row.room = RunQueueMemory.takeRoom(tables, task.assistantId, entry.waits, entry.limits)
    tables.tasks.set(uuid, row)
    if (row.room === "waiting") {
      row.acceptanceDeadline = null
      RunQueueMemory.enqueue(tables, row)
    }
    return { taskId: uuid, isReplay: false, room: row.room }
  }
)

/** An event that changes nothing is still a sign of life of its run. */
const noteLife = (row: TaskRow, runId: RunId, at: Timestamp) => {
  if (row.status !== "processing" || row.runId !== runId) return
  Object.assign(row, { resumedAt: null, lastEventAt: at, redispatches: null })
}

const claimSilent = ({ tasks }: Tables, { redispatches, lastEventAt, revision, uuid }: TaskHead): Array<TaskHead> => {
  const row = tasks.get(uuid)
  const isUnchanged = row?.status === "processing" && row.revision === revision && row.redispatches === redispatches &&
    (row.lastEventAt ?? 0) <= (lastEventAt ?? 0)
  if (!isUnchanged) return []
  row.redispatches = (redispatches ?? 0) + 1
  return [headOf(row)]
}

/** Applies an event. Returns whether it inserted a webhook. */
const apply = (
  tables: Tables,
  row: TaskRow,
  event: TaskEvent,
  at: Timestamp,
  { coreEventId, waits = false }: { readonly coreEventId?: string | undefined; readonly waits?: boolean | undefined } =
    {}
) => {
  const { deliveries, stops } = tables
  const { callbackFormat: format, callbackSecret: secret, callbackUrl: url, uuid: taskId } = row.task
  const change = changeOf(event)
  if (change.stopReason !== undefined) {
    stops.set(row.runId, { taskId, reason: change.stopReason, attempts: 0, dueAt: at })
  }
  if (row.room === "waiting") {
    tables.waiting.delete(taskId)
    // The wait of a resumed run was no time of its core.
    if (row.status === "processing") row.events.at(-1)!.startedAt = at
  }
  row.status = change.status
  row.revision += 1
  row.error = change.error
  row.pendingToolCalls = change.pendingToolCalls
  row.turn = change.turn ?? row.turn
  row.resumedAt = change.run === undefined ? null : at
  row.lastEventAt = at
  row.redispatches = null
  if (change.isTerminal) row.completedAt = at
  if (change.coreState !== undefined) row.coreState = change.coreState
  if (change.run !== undefined) {
    row.runId = change.run.runId
    row.toolResults = change.run.results
    row.userToken = change.run.userToken
    row.principal = change.run.principal
    row.room = waits || RunQueueMemory.hasLimit(tables, row.task.assistantId) ? "waiting" : null
  } else if (change.isTerminal || change.status === "interrupted") {
    row.room = null
  } else if (row.room === "waiting") {
    // The event shows that the core has the run.
    row.room = "held"
  }
  const { revision, status } = row
  row.events.push({ revision, type: event._tag, status, occurredAt: at, report: change.report, author: change.author })
  if (row.room === "waiting") RunQueueMemory.enqueue(tables, row)
  if (coreEventId !== undefined) row.coreEventIds.add(coreEventId)
  for (const hook of tables.onEvent) hook(row)
  if (url === null || !sendsWebhook(status)) return false
  const body = TaskView.toJson({ ...summaryOf(row), turn: row.turn })
  WebhookStoreMemory.enqueue(deliveries, {
    sub: row.principal.sub,
    taskId,
    revision,
    status,
    url,
    secret,
    body,
    format,
    createdAt: at
  })
  return true
}

type ApplyArguments = Parameters<typeof apply> extends [unknown, ...infer Rest] ? Rest : never

/** Why the event does not apply; undefined when it does. */
const refusalOf = (row: TaskRow, event: TaskEvent, fence: Fence | undefined, isRevoked: boolean) => {
  if (fence?.coreEventId !== undefined && row.coreEventIds.has(fence.coreEventId)) return "NoEffect"
  if (isTerminal(row.status) || (fence !== undefined && fence.runId !== row.runId)) return "Superseded"
  if (statusAfter(row.status, event._tag) === undefined) return "NoEffect"
  return isRevoked ? "Revoked" : undefined
}

export const make = Effect.gen(function*() {
  const tables = yield* MemoryTables
  const revocations = yield* RevocationRepository
  const { publish, webhooks } = yield* Changes

  const applyTo = (...[row, event, at, options]: ApplyArguments) => {
    if (apply(tables, row, event, at, options)) webhooks.due(at)
    const head = headOf(row)
    return Effect.as(publish(head.uuid, head), head)
  }

  const commit: TaskStore["Service"]["commit"] = Effect.fnUntraced(function*(uuid, event, at, fence, key, waits) {
    const row = tables.tasks.get(uuid)
    if (row === undefined) return { _tag: "Unknown" } satisfies Commit
    const needsToken = needsValidToken(event._tag) || fence?.recordsAcceptance === true
    const isRevoked = needsToken && (yield* revocations.isRevoked(row.principal))
    const accepted = fence?.recordsAcceptance === true && row.status === "pending"
      ? yield* commit(uuid, TaskEvent.cases.Accepted.make({}), at, { runId: fence.runId })
      : undefined
    const refusal = refusalOf(row, event, fence, isRevoked)
    if (refusal === "NoEffect" && fence?.coreEventId !== undefined) noteLife(row, fence.runId, at)
    if (refusal !== undefined) return { _tag: refusal, head: headOf(row) } satisfies Commit
    if (key !== undefined) {
      if (keyOf(tables, key.sub, key.value, at) !== undefined) {
        return { _tag: "NoEffect", head: headOf(row) } satisfies Commit
      }
      storeKey(tables, key.sub, key, uuid, at)
    }
    const head = yield* applyTo(row, event, at, { coreEventId: fence?.coreEventId, waits })
    return { _tag: "Applied", head, recordedAcceptance: accepted?._tag === "Applied" } satisfies Commit
  })

  return partOf({
    create: (task, maxActive, key, entry = noQueue) => create(tables, task, maxActive, key, entry),

    commit,

    cancelInterrupted: (sub, at, author) =>
      Effect.suspend(() =>
        Effect.forEach(
          [...tables.tasks.values()].filter(({ status, task }) =>
            status === "interrupted" && task.principal.sub === sub
          ),
          (row) => applyTo(row, { _tag: "Canceled", reason: null, author }, at)
        )
      ),

    claimSilent: (runs) => Effect.sync(() => runs.flatMap((run) => claimSilent(tables, run))),

    startAcceptance: (uuid, runId, deadline) =>
      Effect.sync(() => {
        const row = tables.tasks.get(uuid)
        if (row === undefined) return undefined
        const isFirst = row.status === "pending" && row.runId === runId && row.room !== "waiting"
        if (isFirst && row.acceptanceDeadline === null) {
          row.acceptanceDeadline = deadline
          row.queueRevision++
        }
        return headOf(row)
      })
  })
})
