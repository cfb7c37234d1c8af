/** The public forms of what operators read. */
import type { Revocation } from "../../domain/Revocation.ts"
import * as TaskShard from "../../domain/TaskShard.ts"
import * as TaskView from "../../domain/TaskView.ts"
import { format, formatOrNull, type Timestamp } from "../../domain/Timestamp.ts"
import { type Delivery, originOf } from "../../domain/Webhook.ts"
import type { Unreachable } from "../../services/core/CoreReach.ts"
import type { AssistantBackend } from "../../services/files/AssistantBackend.ts"
import { type Member, unownedShards } from "../../services/operations/ClusterNodes.ts"
import * as EndedBy from "../../services/operator/EndedBy.ts"
import { historyNames, type Point } from "../../services/operator/History.ts"
import type { ErrorGroup } from "../../services/operator/Operators.ts"
import type { OperatorSessions } from "../../services/operator/OperatorSessions.ts"
import type {
  DueClock,
  DueStop,
  Durations,
  FoundTask,
  ListedRevocation,
  OriginStats,
  StuckRun,
  TaskDetail
} from "../../services/operator/OperatorStore.ts"
import type { Overview } from "../../services/operator/Overview.ts"
import type { RecordedEvent } from "../../services/store/tasks/TaskStore.ts"
import * as Deliveries from "../handlers/Deliveries.ts"
import * as TaskEvents from "../handlers/TaskEvents.ts"

type Names = Pick<AssistantBackend["Service"], "nameOf">

const lateMillis = (dueAt: Timestamp, at: Timestamp) => Math.max(0, Math.round((at - dueAt) / 1000))

export const task = (found: FoundTask, assistants: Names) => ({
  uuid: found.uuid,
  sub: found.sub,
  assistant_id: found.assistantId,
  assistant_name: found.assistantId === null ? null : assistants.nameOf(found.assistantId),
  status: found.status,
  error: found.error,
  created_at: format(found.createdAt),
  completed_at: formatOrNull(found.completedAt),
  deadline_at: format(found.deadline),
  acceptance_deadline_at: formatOrNull(found.acceptanceDeadline),
  callback_origin: found.callbackUrl === null ? null : originOf(found.callbackUrl),
  pending_tools: found.pendingTools
})

export const delivery = (found: Delivery) => ({
  ...Deliveries.view(found),
  task_uuid: found.taskId,
  origin: found.origin
})

const endedBy = (found: EndedBy.EndedBy | null) =>
  found === null ? null : { by: found.by, name: found.name, bulk_id: found.bulkId, at: format(found.at) }

export const taskDetail = (
  { found, head, requestBytes, turnBytes }: TaskDetail,
  events: ReadonlyArray<RecordedEvent>,
  deliveries: ReadonlyArray<Delivery>,
  members: ReadonlyArray<Member>,
  /** Its place in the queue. */
  position: number | undefined,
  assistants: Names
) => {
  const shard = TaskShard.of(head.uuid)
  return {
    ...task(found, assistants),
    run_id: head.runId,
    revision: head.revision,
    shard,
    owner: members.find(({ shards }) => shards === null || shards.includes(shard))?.address ?? null,
    ...TaskView.describeWaiting(head, position),
    bytes: { request: requestBytes, turn: turnBytes },
    ended_by: endedBy(EndedBy.of(events.at(-1))),
    events: events.map((event) => ({
      ...TaskEvents.describe(head.uuid, event),
      type: event.type,
      actor: event.author
    })),
    deliveries: deliveries.map(delivery)
  }
}

export const overview = (
  { alerts, at, coreBusySince, largestUsers, lastHour, live, members, origins, overdue, queue, unowned }: Overview,
  operators: OperatorSessions["Service"]["known"]
) => ({
  at: format(at),
  live: { pending: live.counts.pending, processing: live.counts.processing, interrupted: live.counts.interrupted },
  next_deadline: formatOrNull(live.nextDeadline),
  overdue_ms: overdue,
  last_hour: {
    created: lastHour("created"),
    completed: lastHour("completed"),
    failed: lastHour("failed"),
    canceled: lastHour("canceled")
  },
  deliveries: {
    pending: origins.reduce((sum, { pending }) => sum + pending, 0),
    failed: origins.reduce((sum, { failed }) => sum + failed, 0)
  },
  queue: {
    running: queue.running,
    waiting: queue.waiting,
    oldest_waiting_since: formatOrNull(queue.oldestWaitingSince),
    core_busy_since: formatOrNull(coreBusySince ?? null)
  },
  nodes: members.length,
  node_starts: members.map(({ startedAt }) => format(startedAt)),
  unowned,
  largest_users: largestUsers.map(({ bytes, countedAt, sub, tasks }) => ({
    sub,
    bytes,
    tasks,
    counted_at: format(countedAt)
  })),
  operators,
  alerts
})

export const clock = ({ clock, dueAt, status, sub, uuid }: DueClock, at: Timestamp) => ({
  uuid,
  sub,
  status,
  clock,
  due_at: format(dueAt),
  late_ms: lateMillis(dueAt, at)
})

export const stop = ({ attempts, dueAt, reason, runId, taskId }: DueStop, at: Timestamp) => ({
  run_id: runId,
  task_uuid: taskId,
  reason,
  attempts,
  due_at: format(dueAt),
  late_ms: lateMillis(dueAt, at)
})

/** Every name has a number for each period. */
export const history = (points: ReadonlyArray<Point>, from: Timestamp, step: number, periods: number) => {
  const zeros = () => Array.from({ length: periods }, () => 0)
  const series: Record<string, Array<number>> = Object.fromEntries(historyNames.map((name) => [name, zeros()]))
  for (const { name, period, value } of points) series[name]?.splice(period, 1, value)
  return { step, from: format(from), series }
}

export const errorGroup = ({ firstAt, lastAt, ...group }: ErrorGroup) => ({
  ...group,
  first_at: format(firstAt),
  last_at: format(lastAt)
})

export const durations = ({ assistantId, tasks, ...times }: Durations, name: string | null) => ({
  assistant_id: assistantId,
  name,
  tasks,
  waiting_ms: { p50: Math.round(times.waitingP50), p95: Math.round(times.waitingP95) },
  running_ms: { p50: Math.round(times.runningP50), p95: Math.round(times.runningP95) }
})

export const unreachable = (found: Unreachable | undefined) =>
  found === undefined ? null : { since: format(found.since), reason: found.reason }

export const stuckRun = (run: StuckRun, at: Timestamp) => ({
  uuid: run.uuid,
  sub: run.sub,
  status: run.status,
  created_at: format(run.createdAt),
  progress_at: format(run.progressAt),
  idle_ms: lateMillis(run.progressAt, at),
  ...TaskView.describeWaiting(run)
})

export const origin = ({ failed, lastError, oldestFailedAt, origin, pending }: OriginStats) => ({
  origin,
  pending,
  failed,
  last_error: lastError,
  oldest_failed_at: formatOrNull(oldestFailedAt)
})

export const cluster = (members: ReadonlyArray<Member>) => ({
  members: members.map((member) => ({
    instance: member.instance,
    address: member.address,
    version: member.version,
    is_self: member.isSelf,
    started_at: format(member.startedAt),
    seen_at: format(member.seenAt),
    drained: member.isDrained,
    shards: member.shards,
    tasks: member.tasks,
    next_due: formatOrNull(member.nextDue),
    lateness_ms: member.lateness
  })),
  shards: TaskShard.count,
  unowned: unownedShards(members)
})

const nobody = { jti: null, token_hash: null, sub: null, issued_before: null }

/** The id of a token is its `jti`, or a hash of the token. */
const subjectOf = (revocation: Revocation) => {
  if (revocation._tag === "User") {
    return { ...nobody, sub: revocation.sub, issued_before: format(revocation.issuedBefore) }
  }
  const [, kind, id = null] = /^(jti|sha256):(.*)$/s.exec(revocation.tokenId) ?? []
  return kind === "jti" ? { ...nobody, jti: id } : { ...nobody, token_hash: id }
}

export const revocation = ({ at, revocation }: ListedRevocation) => ({
  ...subjectOf(revocation),
  expires_at: formatOrNull(revocation.expiresAt),
  revoked_at: format(at)
})
