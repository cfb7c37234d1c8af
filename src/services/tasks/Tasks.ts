/** The use cases of tasks for REST, RPC and the core. Each change is a guarded statement. */
import { Context, Duration, Effect, Layer, Option, Redacted, Schema } from "effect"
import { SecureRandom } from "effect/crypto"
import type { CoreReport } from "../../domain/CoreProtocol.ts"
import type { Caller, Principal } from "../../domain/Principal.ts"
import type { Revocation } from "../../domain/Revocation.ts"
import type { StoreUnavailable } from "../../domain/StoreUnavailable.ts"
import {
  type Room,
  RunId,
  type Task,
  TaskEvent,
  type TaskEventTag,
  type TaskHead,
  TaskId,
  type TaskStatus
} from "../../domain/Task.ts"
import {
  type CreateRefused,
  type IdempotencyKeyReused,
  RunSuperseded,
  TaskBelongsToAnother,
  TaskNotFound,
  TaskNotInterrupted,
  ToolResultsMismatch,
  type TooManyActiveTasks
} from "../../domain/TaskErrors.ts"
import type { CreateTask } from "../../domain/TaskRequest.ts"
import * as TaskShard from "../../domain/TaskShard.ts"
import { now, plus } from "../../domain/Timestamp.ts"
import { type PassedCall, readCalls, type ToolResults } from "../../domain/ToolCall.ts"
import { TaskActors } from "../actors/TaskActors.ts"
import { TaskSweeper } from "../actors/TaskSweeper.ts"
import { TaskOwnership } from "../cluster/TaskOwnership.ts"
import type { Run } from "../core/CoreClient.ts"
import { CoreStops } from "../core/CoreStops.ts"
import { CreateLimits } from "../Extensions.ts"
import type { Handed, Taken } from "../live/LivePeers.ts"
import { LiveTexts } from "../live/LiveTexts.ts"
import { CoreBusy } from "../queue/CoreBusy.ts"
import { Settings } from "../settings/Settings.ts"
import {
  type NewTask,
  type QueueEntry,
  type RequestKey,
  type TaskOutline,
  TaskStore
} from "../store/tasks/TaskStore.ts"
import { Secrets } from "../tokens/Secrets.ts"
import { TokenRevocations } from "../tokens/TokenRevocations.ts"
import * as Replays from "./Replays.ts"
import * as TaskEnds from "./TaskEnds.ts"
import * as TaskRuns from "./TaskRuns.ts"

export interface CreatedTask {
  readonly uuid: TaskId
  /** Seconds. */
  readonly maxExecutionTime: number
  readonly isReplay: boolean
}

/** `isReplay` is true when an earlier request with the same idempotency key had the effect already. */
export interface Done {
  readonly isReplay: boolean
}

export class Tasks extends Context.Service<
  Tasks,
  TaskEnds.TaskEnds & {
    readonly create: (
      caller: Caller,
      body: CreateTask,
      key?: RequestKey
    ) => Effect.Effect<CreatedTask, CreateRefused | TooManyActiveTasks | IdempotencyKeyReused | StoreUnavailable>
    /** A task that the caller owns. A malformed id fails with `TaskNotFound`. */
    readonly get: (
      principal: Principal,
      uuid: string
    ) => Effect.Effect<Task, TaskNotFound | TaskBelongsToAnother | StoreUnavailable>
    /** The same, without a turn that is large. */
    readonly getOutline: (
      principal: Principal,
      uuid: string
    ) => Effect.Effect<TaskOutline, TaskNotFound | TaskBelongsToAnother | StoreUnavailable>
    /** The head of a task that the caller owns, without the turn. */
    readonly getHead: (
      principal: Principal,
      uuid: string
    ) => Effect.Effect<TaskHead, TaskNotFound | TaskBelongsToAnother | StoreUnavailable>
    readonly submitToolResults: (
      caller: Caller,
      task: Omit<Task, "turn">,
      results: ToolResults,
      key?: RequestKey
    ) => Effect.Effect<Done, TaskNotInterrupted | ToolResultsMismatch | IdempotencyKeyReused | StoreUnavailable>
    /** `actor` is who cancels, if not the user. */
    readonly cancel: (
      task: Pick<Task, "uuid" | "sub" | "runId" | "status">,
      reason: string | null,
      key?: RequestKey,
      actor?: string
    ) => Effect.Effect<Done, TaskNotInterrupted | IdempotencyKeyReused | StoreUnavailable>
    readonly cancelInterrupted: (
      principal: Principal,
      actor?: string
    ) => Effect.Effect<ReadonlyArray<TaskId>, StoreUnavailable>
    /** Rejects requests with the token from now on and ends processing tasks that were created with it. `actor` is who revokes. */
    readonly revoke: (revocation: Revocation, actor?: string) => Effect.Effect<void, StoreUnavailable>
    /** Commits an event of the core; `applied` is false when it changed nothing. */
    readonly report: (report: CoreReport) => Effect.Effect<Reported, TaskNotFound | RunSuperseded | StoreUnavailable>
    /** The same at once, of text for a run that is known here; undefined if the report takes longer. */
    readonly reportNow: (report: CoreReport) => Reported | undefined
    /** Takes what a core reported to another node, of a task that is this node's. */
    readonly takeOver: (handed: Handed) => Effect.Effect<Taken, StoreUnavailable>
  }
>()("async-task-service/services/tasks/Tasks") {
  static readonly layer = Layer.effect(Tasks, Effect.suspend(() => make))
}

export interface Reported {
  readonly status: TaskStatus
  readonly applied: boolean
  /** The index that is expected of a core that counts appends; null if it is not known. */
  readonly next?: number | null
}

/** Maximum characters of a client's text in an error message. */
const quotedLength = 255

/** Replaces a malformed `run_id`; no run has it. */
const noRun = RunId.make("00000000-0000-0000-0000-000000000000")

const headOf = (
  { acceptanceDeadline, deadline, maxExecutionTime, principal, runId, uuid }: NewTask,
  room: Room | null
): TaskHead => ({
  uuid,
  sub: principal.sub,
  status: "pending",
  revision: 0,
  runId,
  maxExecutionTime,
  deadline,
  acceptanceDeadline: room === "waiting" ? null : acceptanceDeadline,
  resumedAt: null,
  lastEventAt: null,
  redispatches: null,
  room,
  queueRevision: 0
})

const runOf = ({ deadline, principal, runId, uuid }: NewTask, request: Run["request"], caller: Caller): Run => ({
  taskId: uuid,
  runId,
  principal,
  userToken: caller.token,
  deadline,
  request,
  resume: null
})

/** The positions of results that answer no pending call, or one twice, and the calls without a result. */
const mismatches = (calls: ReadonlyArray<PassedCall>, results: ToolResults) => {
  const open = new Set(calls.map(({ id }) => id))
  const answered = new Set<string>()
  const problems = results.ids.flatMap((id, index) => {
    const name = id.slice(0, quotedLength)
    if (!open.has(id)) return [{ index, message: `No pending tool call has the id ${name}` }]
    if (answered.has(id)) return [{ index, message: `${name} is answered more than once` }]
    answered.add(id)
    return []
  })
  const missing = [...open].filter((id) => !answered.has(id))
  return missing.length === 0
    ? problems
    : [...problems, { index: null, message: `No result for the tool call ${missing.join(", ")}` }]
}

const makeCreate = Effect.fnUntraced(function*({ ensureActor, newRunId, sealToken }: TaskRuns.TaskRuns) {
  const store = yield* TaskStore
  const actors = yield* TaskActors
  const secrets = yield* Secrets
  const settings = yield* Settings
  const ownership = yield* TaskOwnership
  const random = yield* SecureRandom.SecureRandom
  const limits = yield* CreateLimits

  const refusalOf = (sub: string) => {
    for (const refuse of limits) {
      const refusal = refuse(sub)
      if (refusal !== undefined) return refusal
    }
    return undefined
  }

  /** The id is in a shard of this node, if it has one, so that the node that has the request also runs the task. */
  const newTaskId = Effect.map(random.uuidV7(), (id) => {
    const shards = ownership.shards() ?? []
    return shards.length === 0 ? TaskId.make(id) : TaskShard.moveTo(TaskId.make(id), shards)
  })

  const createNow = Effect.fnUntraced(function*(
    uuid: TaskId,
    caller: Caller,
    body: CreateTask,
    key: RequestKey | undefined,
    isImmediate: boolean,
    entry: QueueEntry
  ) {
    const { callbackFormat = null, callbackSecret, maxExecutionTime } = body
    const runId = yield* newRunId
    const createdAt = yield* now
    const task: NewTask = {
      ...body,
      uuid,
      principal: caller.principal,
      runId,
      callbackFormat,
      createdAt,
      deadline: plus(createdAt, Duration.seconds(maxExecutionTime)),
      acceptanceDeadline: isImmediate ? plus(createdAt, settings.acceptanceTimeout) : null,
      userToken: yield* sealToken(caller),
      callbackSecret: callbackSecret === null
        ? null
        : yield* secrets.seal("callback-secret", Redacted.make(callbackSecret))
    }
    const insert = store.create(task, settings.maxActiveTasks, key, entry)
    const begin = (room: Room | null) =>
      Effect.suspend(() => actors.begin(headOf(task, room), runOf(task, body.whole ?? body.request, caller)))
    // A client that disconnects must not leave a created task without an actor until the next sweep.
    const { isReplay, taskId } = yield* Effect.uninterruptible(
      Effect.tap(insert, ({ isReplay, room, taskId }) => isReplay ? ensureActor(taskId) : begin(room))
    )
    return { uuid: taskId, maxExecutionTime, isReplay }
  })

  /** A request that was carried out before is answered again. */
  const refuseUnlessDone = Effect.fnUntraced(function*(refusal: CreateRefused, sub: string, key?: RequestKey) {
    const used = key === undefined ? Option.none() : yield* store.usedKey(sub, key.value, yield* now)
    if (Option.isNone(used)) return yield* refusal
  })

  return Effect.fnUntraced(function*(caller: Caller, body: CreateTask, key?: RequestKey) {
    const { sub } = caller.principal
    const refusal = refusalOf(sub)
    if (refusal !== undefined) yield* refuseUnlessDone(refusal, sub, key)
    const uuid = yield* newTaskId
    return yield* actors.withDispatchSlot(
      uuid,
      body.whole ?? body.request,
      (isImmediate, entry) => createNow(uuid, caller, body, key, isImmediate, entry)
    )
  })
})

const makeReads = Effect.gen(function*() {
  const store = yield* TaskStore

  const makeGet = <A extends Task>(read: (uuid: TaskId) => Effect.Effect<Option.Option<A>, StoreUnavailable>) =>
    Effect.fnUntraced(function*(principal: Principal, uuid: string) {
      if (!Schema.is(TaskId)(uuid)) return yield* new TaskNotFound({})
      const task = Option.getOrUndefined(yield* read(uuid))
      if (task === undefined) return yield* new TaskNotFound({})
      if (task.sub !== principal.sub) return yield* new TaskBelongsToAnother({})
      return task
    })

  const getHead = Effect.fnUntraced(function*(principal: Principal, uuid: string) {
    const [head] = Schema.is(TaskId)(uuid) ? yield* store.heads([uuid]) : []
    if (head === undefined) return yield* new TaskNotFound({})
    if (head.sub !== principal.sub) return yield* new TaskBelongsToAnother({})
    return head
  })

  return { get: makeGet(store.get), getOutline: makeGet(store.outline), getHead }
})

/** Changes of interrupted tasks, each once per idempotency key. */
const makeChanges = Effect.fnUntraced(function*({ ensureActor, newRunId, sealToken }: TaskRuns.TaskRuns) {
  const isReplayed = yield* Replays.make
  const store = yield* TaskStore
  const actors = yield* TaskActors
  const stops = yield* CoreStops
  const busy = yield* CoreBusy

  /** Commits an event of an interrupted task, once per key; undefined for a replay. */
  const commitInterrupted = Effect.fnUntraced(
    function*(
      task: Pick<Task, "uuid" | "sub" | "runId" | "status">,
      event: TaskEvent,
      key: RequestKey | undefined
    ) {
      const made = key === undefined ? undefined : { ...key, sub: task.sub }
      const at = yield* now
      const waits = event._tag === "ToolResultsSubmitted" && busy.resumedWaits(at)
      const outcome = yield* store.commit(task.uuid, event, at, { runId: task.runId }, made, waits)
      if (outcome._tag === "Applied") return outcome.head
      // The same request may have been committed on another connection.
      if (yield* isReplayed(task.sub, key)) return undefined
      return yield* new TaskNotInterrupted({
        status: outcome._tag === "Unknown" ? task.status : outcome.head.status
      })
    }
  )

  const submitToolResults = Effect.fnUntraced(
    function*(caller: Caller, task: Omit<Task, "turn">, results: ToolResults, key?: RequestKey) {
      if (yield* isReplayed(task.sub, key)) return yield* Effect.as(ensureActor(task.uuid), { isReplay: true })
      if (task.status !== "interrupted") return yield* new TaskNotInterrupted({ status: task.status })
      const problems = mismatches(yield* readCalls(task.pendingToolCalls), results)
      if (problems.length > 0) return yield* new ToolResultsMismatch({ problems })
      const event = TaskEvent.cases.ToolResultsSubmitted.make({
        results: results.text,
        runId: yield* newRunId,
        principal: caller.principal,
        userToken: yield* sealToken(caller)
      })
      const head = yield* commitInterrupted(task, event, key)
      if (head !== undefined) yield* actors.begin(head)
      return { isReplay: head === undefined }
    },
    Effect.uninterruptible
  )

  const cancel = Effect.fnUntraced(
    function*(...[task, reason, key, actor]: Parameters<Tasks["Service"]["cancel"]>) {
      if (yield* isReplayed(task.sub, key)) return { isReplay: true }
      const head = yield* commitInterrupted(task, TaskEvent.cases.Canceled.make({ reason, actor }), key)
      if (head !== undefined) yield* Effect.andThen(actors.wake(head), stops.wake)
      return { isReplay: head === undefined }
    },
    Effect.uninterruptible
  )

  const cancelInterrupted = Effect.fnUntraced(function*(principal: Principal, actor?: string) {
    const canceled = yield* store.cancelInterrupted(principal.sub, yield* now, actor)
    yield* Effect.forEach(canceled, actors.wake, { discard: true })
    if (canceled.length > 0) yield* stops.wake
    return canceled.map(({ uuid }) => uuid)
  })

  return { submitToolResults, cancel, cancelInterrupted }
})

/** Events that are deduplicated by their id, within their run. */
const repeatable: ReadonlySet<TaskEventTag> = new Set(["Accepted", "Progressed"])

const makeReport = Effect.gen(function*() {
  const store = yield* TaskStore
  const actors = yield* TaskActors
  const live = yield* LiveTexts

  const commit = Effect.fnUntraced(function*(
    task_id: TaskId,
    runId: RunId,
    { event, event_id, recordsAcceptance }: Pick<CoreReport, "event" | "event_id" | "recordsAcceptance">
  ) {
    // The last event of a run repeats only itself: a core that begins a run again may reuse its ids.
    const coreEventId = `${runId}/${repeatable.has(event._tag) ? "" : event._tag}/${event_id}`
    const outcome = yield* store.commit(task_id, event, yield* now, { runId, coreEventId, recordsAcceptance })
    if (outcome._tag === "Unknown") return yield* new TaskNotFound({})
    if (outcome._tag === "Revoked") {
      const { status } = yield* actors.end(outcome.head, TaskEvent.cases.TokenRevoked.make({}))
      return yield* new RunSuperseded({ status })
    }
    yield* actors.wake(outcome.head)
    const { status } = outcome.head
    if (outcome._tag === "Superseded") return yield* new RunSuperseded({ status })
    return { head: outcome.head, applied: outcome._tag === "Applied" }
  })

  /** Records a sign of life of the run. */
  const sign = (uuid: TaskId, runId: RunId, event_id: string) =>
    Effect.map(
      commit(uuid, runId, { event: TaskEvent.cases.Accepted.make({}), event_id, recordsAcceptance: false }),
      ({ head }) => head
    )

  const append = Effect.fnUntraced(
    function*(uuid: TaskId, runId: RunId, eventId: string, appends: NonNullable<CoreReport["appends"]>) {
      const outcome = yield* live.append({ uuid, runId, eventId }, appends, sign(uuid, runId, eventId))
      if (!("_tag" in outcome)) return outcome
      return outcome._tag === "NotFound"
        ? yield* new TaskNotFound({})
        : yield* new RunSuperseded({ status: outcome.status })
    }
  )

  const reportNow = ({ appends, event, run_id, task_id }: CoreReport) =>
    appends === undefined || event._tag !== "Accepted"
      ? undefined
      // No task has an id that is malformed.
      : live.appendNow(task_id.toLowerCase() as TaskId, run_id as RunId, appends)

  const report = Effect.fnUntraced(function*(given: CoreReport) {
    const { appends, event, event_id, nextAppend, run_id, task_id } = given
    if (!Schema.is(TaskId)(task_id)) return yield* new TaskNotFound({})
    const runId = Schema.is(RunId)(run_id) ? run_id : noRun
    if (appends !== undefined && event._tag === "Accepted") {
      return yield* append(TaskId.make(task_id.toLowerCase()), runId, event_id, appends)
    }
    const { applied, head } = yield* commit(task_id, runId, given)
    const reported: Reported = { status: head.status, applied }
    const turn = "turn" in event ? event.turn : null
    if (turn === null || (nextAppend === undefined && !live.has(head.uuid))) return reported
    const stored = { uuid: head.uuid, runId, eventId: event_id, revision: head.revision }
    // A repeated turn is one that the text has.
    const next = applied ? yield* live.turn(stored, turn, nextAppend) : undefined
    if (appends !== undefined) return { ...(yield* append(head.uuid, runId, event_id, appends)), applied }
    return nextAppend === undefined ? reported : { ...reported, next: next ?? (yield* live.nextOf(stored)) }
  })

  const takeOver = (handed: Handed) =>
    live.take(handed, sign(handed.uuid, handed.runId, handed.eventId)).pipe(
      Effect.catchTags({
        TaskNotFound: () => Effect.succeed<Taken>({ _tag: "NotFound" }),
        RunSuperseded: ({ status }) => Effect.succeed<Taken>({ _tag: "Superseded", status })
      })
    )

  return { report, reportNow, takeOver }
})

const make = Effect.gen(function*() {
  const revocations = yield* TokenRevocations
  const sweeper = yield* TaskSweeper
  const runs = yield* TaskRuns.make
  return Tasks.of({
    create: yield* makeCreate(runs),
    ...(yield* makeReads),
    ...(yield* makeChanges(runs)),
    ...(yield* TaskEnds.make),
    ...(yield* makeReport),
    revoke: (revocation, actor) =>
      Effect.uninterruptible(Effect.andThen(revocations.revoke(revocation, actor), sweeper.endRevoked))
  })
})
