/** The use cases of tasks for REST, RPC and the core. Each change is a guarded statement. */
import { Array, Context, Effect, Layer, Option } from "effect"
import type { CoreReport, Reported } from "../../domain/CoreProtocol.ts"
import type { Caller, Principal } from "../../domain/Principal.ts"
import type { Revocation } from "../../domain/Revocation.ts"
import type { StoreUnavailable } from "../../domain/StoreUnavailable.ts"
import { isTaskId, type Task, TaskEvent, type TaskHead, type TaskId } from "../../domain/Task.ts"
import {
  type CreateRefused,
  type IdempotencyKeyReused,
  type RunSuperseded,
  TaskBelongsToAnother,
  TaskNotFound,
  TaskNotInterrupted,
  ToolResultsMismatch,
  type TooManyActiveTasks
} from "../../domain/TaskErrors.ts"
import type { CreateTask } from "../../domain/TaskRequest.ts"
import { now } from "../../domain/Timestamp.ts"
import { type PassedCall, readCalls, type ToolResults } from "../../domain/ToolCall.ts"
import { TaskActors } from "../actors/TaskActors.ts"
import { TaskSweeper } from "../actors/TaskSweeper.ts"
import { CoreStops } from "../core/CoreStops.ts"
import type { Handed, Taken } from "../live/LivePeers.ts"
import { CoreBusy } from "../queue/CoreBusy.ts"
import { type RequestKey, type TaskOutline, TaskStore } from "../store/tasks/TaskStore.ts"
import { TokenRevocations } from "../tokens/TokenRevocations.ts"
import * as Create from "./Create.ts"
import * as Report from "./Report.ts"
import * as TaskEnds from "./TaskEnds.ts"
import * as TaskRuns from "./TaskRuns.ts"

/** `isReplay` is true when an earlier request with the same idempotency key had the effect already. */
export interface Done {
  readonly isReplay: boolean
}

/** Reads a task that the caller owns. A malformed id fails with `TaskNotFound`. */
type Read<A> = (
  principal: Principal,
  uuid: string
) => Effect.Effect<A, TaskNotFound | TaskBelongsToAnother | StoreUnavailable>

export class Tasks extends Context.Service<
  Tasks,
  TaskEnds.TaskEnds & {
    readonly create: (
      caller: Caller,
      body: CreateTask,
      key?: RequestKey
    ) => Effect.Effect<Create.CreatedTask, CreateRefused | TooManyActiveTasks | IdempotencyKeyReused | StoreUnavailable>
    readonly get: Read<Task>
    /** The same, without a turn that is large. */
    readonly getOutline: Read<TaskOutline>
    /** The same, without the turn. */
    readonly getHead: Read<TaskHead>
    readonly submitToolResults: (
      caller: Caller,
      task: Omit<Task, "turn">,
      results: ToolResults,
      key?: RequestKey
    ) => Effect.Effect<Done, TaskNotInterrupted | ToolResultsMismatch | IdempotencyKeyReused | StoreUnavailable>
    /** `author` is who cancels, if not the user. */
    readonly cancel: (
      task: Pick<Task, "uuid" | "sub" | "runId" | "status">,
      reason: string | null,
      key?: RequestKey,
      author?: string
    ) => Effect.Effect<Done, TaskNotInterrupted | IdempotencyKeyReused | StoreUnavailable>
    readonly cancelInterrupted: (
      principal: Principal,
      author?: string
    ) => Effect.Effect<ReadonlyArray<TaskId>, StoreUnavailable>
    /** Rejects requests with the token from now on and ends processing tasks that were created with it. `author` is who revokes. */
    readonly revoke: (revocation: Revocation, author?: string) => Effect.Effect<void, StoreUnavailable>
    /** Commits an event of the core; `applied` is false when it changed nothing. */
    readonly report: (
      report: CoreReport
    ) => Effect.Effect<Reported, TaskNotFound | RunSuperseded | StoreUnavailable>
    /** The same at once, of text for a run that is known here; undefined if the report takes longer. */
    readonly reportNow: (report: CoreReport) => Reported | undefined
    /** Takes what a core reported to another node, of a task that is this node's. */
    readonly takeOver: (handed: Handed) => Effect.Effect<Taken, StoreUnavailable>
  }
>()("async-task-service/services/tasks/Tasks") {
  static readonly layer = Layer.effect(Tasks, Effect.suspend(() => make))
}

/** Maximum characters of a client's text in an error message. */
const quotedLength = 255

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

const makeReads = Effect.gen(function*() {
  const store = yield* TaskStore

  const of = <A extends TaskHead>(read: (uuid: TaskId) => Effect.Effect<Option.Option<A>, StoreUnavailable>) =>
    Effect.fnUntraced(function*(principal: Principal, uuid: string) {
      if (!isTaskId(uuid)) return yield* new TaskNotFound({})
      const task = Option.getOrUndefined(yield* read(uuid))
      if (task === undefined) return yield* new TaskNotFound({})
      if (task.sub !== principal.sub) return yield* new TaskBelongsToAnother({})
      return task
    })

  return {
    get: of(store.get),
    getOutline: of(store.outline),
    getHead: of((uuid) => Effect.map(store.heads([uuid]), Array.head))
  }
})

/** Changes of interrupted tasks, each once per idempotency key. */
const makeChanges = Effect.fnUntraced(function*({ ensureActor, isReplayed, newRunId, sealToken }: TaskRuns.TaskRuns) {
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
    function*(...[task, reason, key, author]: Parameters<Tasks["Service"]["cancel"]>) {
      if (yield* isReplayed(task.sub, key)) return { isReplay: true }
      const head = yield* commitInterrupted(task, TaskEvent.cases.Canceled.make({ reason, author }), key)
      if (head !== undefined) yield* Effect.andThen(actors.wake(head), stops.wake)
      return { isReplay: head === undefined }
    },
    Effect.uninterruptible
  )

  const cancelInterrupted = Effect.fnUntraced(function*(principal: Principal, author?: string) {
    const canceled = yield* store.cancelInterrupted(principal.sub, yield* now, author)
    yield* Effect.forEach(canceled, actors.wake, { discard: true })
    if (canceled.length > 0) yield* stops.wake
    return canceled.map(({ uuid }) => uuid)
  })

  return { submitToolResults, cancel, cancelInterrupted }
})

const make = Effect.gen(function*() {
  const revocations = yield* TokenRevocations
  const sweeper = yield* TaskSweeper
  const runs = yield* TaskRuns.make
  return Tasks.of({
    create: yield* Create.make(runs),
    ...(yield* makeReads),
    ...(yield* makeChanges(runs)),
    ...(yield* TaskEnds.make(runs)),
    ...(yield* Report.make),
    revoke: (revocation, author) =>
      Effect.uninterruptible(Effect.andThen(revocations.revoke(revocation, author), sweeper.endRevoked))
  })
})
