/** The store in memory, for tests under TestClock. One contract suite runs on this store and on the SQL store. */
import { Context, Duration, Effect, Layer, Option, Result } from "effect"
import * as Limits from "../../domain/Limits.ts"
import type { OpaqueJson } from "../../domain/OpaqueJson.ts"
import type { Principal } from "../../domain/Principal.ts"
import * as Revocation from "../../domain/Revocation.ts"
import {
  isTerminal,
  needsValidToken,
  type RunId,
  type TaskEvent,
  type TaskHead,
  type TaskId,
  type TaskStatus,
  transition
} from "../../domain/Task.ts"
import { changeOf } from "../../domain/TaskChange.ts"
import { IdempotencyKeyReused, TooManyActiveTasks } from "../../domain/TaskErrors.ts"
import * as TaskShard from "../../domain/TaskShard.ts"
import * as TaskView from "../../domain/TaskView.ts"
import { now, plus, type Timestamp } from "../../domain/Timestamp.ts"
import type { ToolCall } from "../../domain/ToolCall.ts"
import { sendsWebhook } from "../../domain/Webhook.ts"
import { RevocationRepository, visibilityLag } from "./RevocationRepository.ts"
import { TaskNotifications } from "./TaskNotifications.ts"
import {
  type Claimed,
  type Commit,
  type Created,
  type IdempotencyClaim,
  type NewTask,
  type RecordedEvent,
  TaskRepository,
  type TaskStats
} from "./TaskRepository.ts"
import { WebhookStore } from "./WebhookStore.ts"
import * as WebhookStoreMemory from "./WebhookStoreMemory.ts"

interface Row {
  readonly task: NewTask
  principal: Principal
  status: TaskStatus
  revision: number
  runId: RunId
  error: string | null
  completedAt: Timestamp | null
  acceptanceDeadline: Timestamp | null
  pendingToolCalls: ReadonlyArray<ToolCall> | null
  turn: OpaqueJson | null
  coreState: OpaqueJson | null
  toolResults: OpaqueJson | null
  userToken: string
  readonly coreEventIds: Set<string>
  readonly events: Array<RecordedEvent>
}

interface Stop {
  readonly taskId: TaskId
  readonly reason: string
  attempts: number
  dueAt: Timestamp
}

const headOf = (row: Row): TaskHead => ({
  uuid: row.task.uuid,
  sub: row.task.principal.sub,
  status: row.status,
  revision: row.revision,
  runId: row.runId,
  maxExecutionTime: row.task.maxExecutionTime,
  deadline: row.task.deadline,
  acceptanceDeadline: row.acceptanceDeadline
})

const summaryOf = (row: Row) => ({
  uuid: row.task.uuid,
  sub: row.task.principal.sub,
  status: row.status,
  error: row.error,
  createdAt: row.task.createdAt,
  completedAt: row.completedAt,
  pendingToolCalls: row.pendingToolCalls
})

const statsOf = (rows: Iterable<Row>): TaskStats => {
  const counts: Record<TaskStatus, number> = {
    pending: 0,
    processing: 0,
    interrupted: 0,
    completed: 0,
    failed: 0,
    canceled: 0
  }
  let nextDeadline: Timestamp | null = null
  for (const { acceptanceDeadline, completedAt, status, task } of rows) {
    counts[status]++
    if (completedAt !== null) continue
    const isWaiting = status === "pending" && acceptanceDeadline !== null
    const next = isWaiting && acceptanceDeadline < task.deadline ? acceptanceDeadline : task.deadline
    if (nextDeadline === null || next < nextDeadline) nextDeadline = next
  }
  return { counts, nextDeadline }
}

const byId = (a: Row, b: Row) => a.task.uuid < b.task.uuid ? -1 : 1
const newestFirst = (a: Row, b: Row) => b.task.createdAt - a.task.createdAt || byId(b, a)

/** The stores of tasks and of deliveries. The first inserts the rows of the second. */
export const layer = Layer.effectContext(
  Effect.gen(function*() {
    const notifications = yield* TaskNotifications
    const webhooks = WebhookStoreMemory.make()
    const revocations = yield* RevocationRepository
    const rows = new Map<TaskId, Row>()
    const stops = new Map<RunId, Stop>()
    const claims = new Map<string, Claimed & { readonly expiresAt: Timestamp }>()
    const claimOf = (sub: string, key: string, at: Timestamp) => {
      const found = claims.get(JSON.stringify([sub, key]))
      return found !== undefined && found.expiresAt > at ? found : undefined
    }
    const claimed = (sub: string, { fingerprint, key }: IdempotencyClaim, taskId: TaskId, at: Timestamp) => {
      claims.set(JSON.stringify([sub, key]), { fingerprint, taskId, expiresAt: plus(at, Limits.idempotencyKeyTtl) })
    }
    const liveRows = () => [...rows.values()].filter((row) => !isTerminal(row.status))

    const apply = (row: Row, event: TaskEvent, at: Timestamp, coreEventId: string | undefined) => {
      const change = changeOf(event)
      if (change.stopReason !== undefined) {
        stops.set(row.runId, { taskId: row.task.uuid, reason: change.stopReason, attempts: 0, dueAt: at })
      }
      row.status = change.status
      row.revision += 1
      row.error = change.error
      row.pendingToolCalls = change.pendingToolCalls
      row.turn = change.turn ?? row.turn
      if (change.isTerminal) row.completedAt = at
      if (change.coreState !== undefined) row.coreState = change.coreState
      if (change.run !== undefined) {
        row.runId = change.run.runId
        row.toolResults = change.run.results
        row.userToken = change.run.userToken
        row.principal = change.run.principal
      }
      row.events.push({ revision: row.revision, type: event._tag, status: row.status, occurredAt: at })
      if (coreEventId !== undefined) row.coreEventIds.add(coreEventId)
      const { callbackSecret: secret, callbackUrl: url, uuid: taskId } = row.task
      if (url !== null && sendsWebhook(row.status)) {
        const body = TaskView.encode({ ...summaryOf(row), turn: row.turn })
        webhooks.enqueue({ taskId, revision: row.revision, status: row.status, url, secret, body, createdAt: at })
        notifications.webhookPending.openUnsafe()
      }
      return headOf(row)
    }

    const repository = TaskRepository.of({
      create: (task, maxActive, claim) =>
        Effect.suspend((): Effect.Effect<Created, TooManyActiveTasks | IdempotencyKeyReused> => {
          const { createdAt, principal: { sub }, uuid } = task
          const before = claim === undefined ? undefined : claimOf(sub, claim.key, createdAt)
          if (before !== undefined) {
            return before.fingerprint === claim?.fingerprint
              ? Effect.succeed({ taskId: before.taskId, isReplay: true })
              : Effect.fail(new IdempotencyKeyReused({}))
          }
          const active = liveRows().filter((row) => row.task.principal.sub === sub)
          if (active.length >= maxActive) return Effect.fail(new TooManyActiveTasks({ maximum: maxActive }))
          if (claim !== undefined) claimed(sub, claim, uuid, createdAt)
          rows.set(uuid, {
            task,
            principal: task.principal,
            status: "pending",
            revision: 0,
            runId: task.runId,
            error: null,
            completedAt: null,
            acceptanceDeadline: task.acceptanceDeadline,
            pendingToolCalls: null,
            turn: null,
            coreState: null,
            toolResults: null,
            userToken: task.userToken,
            coreEventIds: new Set(),
            events: [{ revision: 0, type: "Created", status: "pending", occurredAt: createdAt }]
          })
          return Effect.succeed({ taskId: uuid, isReplay: false })
        }),

      get: (uuid) =>
        Effect.sync(() =>
          Option.map(Option.fromNullishOr(rows.get(uuid)), (row) => ({
            ...summaryOf(row),
            turn: row.turn,
            revision: row.revision,
            runId: row.runId,
            deadline: row.task.deadline,
            acceptanceDeadline: row.acceptanceDeadline
          }))
        ),

      heads: (uuids) =>
        Effect.sync(() =>
          uuids.flatMap((uuid) => {
            const row = rows.get(uuid)
            return row === undefined ? [] : [headOf(row)]
          })
        ),

      eventsAfter: (uuid, revision, limit) =>
        Effect.sync(() => (rows.get(uuid)?.events ?? []).filter((event) => event.revision > revision).slice(0, limit)),

      list: ({ page, perPage, statuses, sub }) =>
        Effect.sync(() => {
          const matching = [...rows.values()]
            .filter((row) => row.task.principal.sub === sub && (statuses.length === 0 || statuses.includes(row.status)))
            .toSorted(newestFirst)
          const start = (page - 1) * perPage
          return { tasks: matching.slice(start, start + perPage).map(summaryOf), total: matching.length }
        }),

      commit: (uuid, event, at, fence, claim) =>
        Effect.gen(function*(): Effect.fn.Return<Commit> {
          const row = rows.get(uuid)
          if (row === undefined) return { _tag: "Unknown" }
          const isRevoked = needsValidToken(event._tag) && (yield* revocations.isRevoked(row.principal))
          const coreEventId = fence?.coreEventId
          if (coreEventId !== undefined && row.coreEventIds.has(coreEventId)) {
            return { _tag: "NoEffect", head: headOf(row) }
          }
          if (isTerminal(row.status) || (fence !== undefined && fence.runId !== row.runId)) {
            return { _tag: "Superseded", head: headOf(row) }
          }
          if (Result.isFailure(transition(row.status, event._tag))) return { _tag: "NoEffect", head: headOf(row) }
          if (isRevoked) return { _tag: "Revoked", head: headOf(row) }
          if (claim !== undefined) claimed(claim.sub, claim, uuid, at)
          return { _tag: "Applied", head: apply(row, event, at, coreEventId) }
        }).pipe(Effect.tap(({ _tag }) => _tag === "Applied" ? notifications.publish(uuid) : Effect.void)),

      claimed: (sub, key, at) =>
        Effect.sync(() =>
          Option.map(
            Option.fromNullishOr(claimOf(sub, key, at)),
            ({ fingerprint, taskId }) => ({ fingerprint, taskId })
          )
        ),

      deleteExpiredKeys: (at, limit) =>
        Effect.sync(() => {
          const expired = [...claims].filter(([, { expiresAt }]) => expiresAt <= at).slice(0, limit)
          for (const [key] of expired) claims.delete(key)
          return expired.length
        }),

      deleteEnded: (before, limit) =>
        Effect.sync(() => {
          const ended = [...rows.values()].filter(({ completedAt, task }) =>
            completedAt !== null && completedAt <= before && !webhooks.isPending(task.uuid)
          )
          for (const { task } of ended.slice(0, limit)) {
            rows.delete(task.uuid)
            webhooks.release(task.uuid)
          }
          return Math.min(ended.length, limit)
        }),

      cancelInterrupted: (sub, at) =>
        Effect.sync(() =>
          [...rows.values()]
            .filter((row) => row.task.principal.sub === sub && row.status === "interrupted")
            .map((row) => apply(row, { _tag: "Canceled", reason: null }, at, undefined))
        ).pipe(Effect.tap(Effect.forEach(({ uuid }) => notifications.publish(uuid), { discard: true }))),

      startAcceptanceClock: (uuid, runId, deadline) =>
        Effect.sync(() => {
          const row = rows.get(uuid)
          if (row?.status === "pending" && row.runId === runId) row.acceptanceDeadline ??= deadline
        }),

      pendingRun: (uuid) =>
        Effect.sync(() =>
          Option.fromNullishOr(rows.get(uuid)).pipe(
            Option.filter(({ status }) => status === "pending" || status === "processing"),
            Option.map((row) => ({
              principal: row.principal,
              runId: row.runId,
              deadline: row.task.deadline,
              request: row.task.request,
              userToken: row.userToken,
              resume: row.toolResults === null ? null : { state: row.coreState, results: row.toolResults }
            }))
          )
        ),

      live: (after, limit, shards) =>
        Effect.sync(() =>
          liveRows().toSorted(byId).filter(({ task: { uuid } }) =>
            (after === undefined || uuid > after) && (shards === undefined || shards.includes(TaskShard.of(uuid)))
          ).slice(0, limit).map(headOf)
        ),

      stats: Effect.sync(() => statsOf(rows.values())),
      liveStats: Effect.sync(() => statsOf(liveRows())),

      overdue: (at, limit) =>
        Effect.sync(() =>
          liveRows()
            .filter((row) =>
              row.task.deadline <= at ||
              (row.status === "pending" && row.acceptanceDeadline !== null && row.acceptanceDeadline <= at)
            )
            .slice(0, limit)
            .map(headOf)
        ),

      revoked: (within, limit) =>
        Effect.gen(function*() {
          const from = within === undefined ? undefined : plus(plus(yield* now, Duration.negate(within)), visibilityLag)
          const { revocations: recent } = yield* revocations.since(from)
          return liveRows()
            .filter(({ principal, status }) =>
              status === "processing" && recent.some((revocation) => Revocation.covers(revocation, principal))
            )
            .slice(0, limit)
            .map(headOf)
        }),

      claimStops: (at, lease, limit) =>
        Effect.sync(() =>
          [...stops].filter(([, stop]) => stop.dueAt <= at).slice(0, limit).map(([runId, stop]) => {
            stop.attempts += 1
            stop.dueAt = plus(at, lease)
            return { runId, taskId: stop.taskId, reason: stop.reason, attempt: stop.attempts }
          })
        ),

      recordStop: (runId) => Effect.sync(() => void stops.delete(runId)),

      postponeStop: (runId, until) =>
        Effect.sync(() => {
          const stop = stops.get(runId)
          if (stop !== undefined) stop.dueAt = until
        })
    })
    return Context.make(TaskRepository, repository).pipe(Context.add(WebhookStore, webhooks.store))
  })
)
