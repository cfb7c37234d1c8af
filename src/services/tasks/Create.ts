/** The use case that creates a task. */
import { Duration, Effect, Option, Redacted } from "effect"
import { SecureRandom } from "effect/crypto"
import type { Caller } from "../../domain/Principal.ts"
import { type Room, type TaskHead, TaskId } from "../../domain/Task.ts"
import type { CreateRefused } from "../../domain/TaskErrors.ts"
import type { CreateTask } from "../../domain/TaskRequest.ts"
import * as TaskShard from "../../domain/TaskShard.ts"
import { now, plus } from "../../domain/Timestamp.ts"
import { type Expected, TaskActors } from "../actors/TaskActors.ts"
import { TaskOwnership } from "../cluster/TaskOwnership.ts"
import type { Run } from "../core/CoreClient.ts"
import { CreateLimits } from "../Extensions.ts"
import { Settings } from "../settings/Settings.ts"
import { type NewTask, type RequestKey, TaskStore } from "../store/tasks/TaskStore.ts"
import { Secrets } from "../tokens/Secrets.ts"
import type { TaskRuns } from "./TaskRuns.ts"

export interface CreatedTask {
  readonly uuid: TaskId
  /** Seconds. */
  readonly maxExecutionTime: number
  readonly isReplay: boolean
}

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

export const make = Effect.fnUntraced(function*({ ensureActor, newRunId, sealToken }: TaskRuns) {
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

  /** A request that was carried out before is answered again. */
  const refuseUnlessDone = Effect.fnUntraced(function*(refusal: CreateRefused, sub: string, key?: RequestKey) {
    const used = key === undefined ? Option.none() : yield* store.usedKey(sub, key.value, yield* now)
    if (Option.isNone(used)) return yield* refusal
  })

  /** The id is in a shard of this node, if it has one, so that the node that has the request also runs the task. */
  const newTaskId = Effect.map(random.uuidV7(), (id) => {
    const shards = ownership.shards() ?? []
    return shards.length === 0 ? TaskId.make(id) : TaskShard.moveTo(TaskId.make(id), shards)
  })

  const insert = Effect.fnUntraced(function*(
    caller: Caller,
    { callbackFormat, callbackSecret, maxExecutionTime, whole, ...body }: CreateTask,
    key: RequestKey | undefined,
    { entry, isImmediate, uuid }: Expected
  ) {
    const createdAt = yield* now
    const task: NewTask = {
      ...body,
      uuid,
      principal: caller.principal,
      runId: yield* newRunId,
      maxExecutionTime,
      callbackFormat: callbackFormat ?? null,
      createdAt,
      deadline: plus(createdAt, Duration.seconds(maxExecutionTime)),
      acceptanceDeadline: isImmediate ? plus(createdAt, settings.acceptanceTimeout) : null,
      userToken: yield* sealToken(caller),
      callbackSecret: callbackSecret === null
        ? null
        : yield* secrets.seal("callback-secret", Redacted.make(callbackSecret))
    }
    const inserted = store.create(task, settings.maxActiveTasks, key, entry)
    const begin = (room: Room | null) =>
      Effect.suspend(() => actors.begin(headOf(task, room), runOf(task, whole ?? body.request, caller)))
    // A client that disconnects must not leave a created task without an actor until the next sweep.
    const { isReplay, taskId } = yield* Effect.uninterruptible(
      Effect.tap(inserted, ({ isReplay, room, taskId }) => isReplay ? ensureActor(taskId) : begin(room))
    )
    return { uuid: taskId, maxExecutionTime, isReplay }
  })

  return Effect.fnUntraced(function*(caller: Caller, body: CreateTask, key?: RequestKey) {
    const { sub } = caller.principal
    const refusal = refusalOf(sub)
    if (refusal !== undefined) yield* refuseUnlessDone(refusal, sub, key)
    return yield* Effect.acquireUseRelease(
      actors.expect(yield* newTaskId, body.whole ?? body.request),
      (expected) => insert(caller, body, key, expected),
      ({ begun }) => begun
    )
  })
})
