/** Stored requests, parts of stored turns, and tasks that run a stored request again. */
import { Context, Effect, Layer, Option } from "effect"
import * as Limits from "../../domain/Limits.ts"
import type { Caller } from "../../domain/Principal.ts"
import * as StoredRequest from "../../domain/StoredRequest.ts"
import type { StoreUnavailable } from "../../domain/StoreUnavailable.ts"
import type { TaskHead, TaskId } from "../../domain/Task.ts"
import {
  type CreateRefused,
  IdempotencyKeyReused,
  RequestNotKept,
  type TooManyActiveTasks
} from "../../domain/TaskErrors.ts"
import type { Overrides } from "../../domain/TaskRerun.ts"
import { now } from "../../domain/Timestamp.ts"
import * as RunRequests from "../core/RunRequests.ts"
import { type RequestKey, TaskStore } from "../store/tasks/TaskStore.ts"
import type { CreatedTask } from "./Create.ts"
import { Tasks } from "./Tasks.ts"

export class TaskRequests extends Context.Service<TaskRequests, {
  /** The field `request` of `?include=request` as JSON; null if the request is not kept. */
  readonly describe: (uuid: TaskId) => Effect.Effect<string, StoreUnavailable>
  /** Creates a task with the request of `task`, some fields of it replaced. */
  readonly rerun: (
    caller: Caller,
    task: TaskHead,
    overrides: Overrides,
    key?: RequestKey
  ) => Effect.Effect<
    CreatedTask,
    RequestNotKept | CreateRefused | TooManyActiveTasks | IdempotencyKeyReused | StoreUnavailable
  >
}>()("async-task-service/services/tasks/TaskRequests") {
  static readonly layer = Layer.effect(TaskRequests, Effect.suspend(() => make))
}

const make = Effect.gen(function*() {
  const store = yield* TaskStore
  const tasks = yield* Tasks
  const runRequests = yield* RunRequests.make

  /** The outcome of a repeated request, which does not need the original's request. */
  const replay = Effect.fnUntraced(function*(task: TaskHead, { task: fields }: Overrides, key: RequestKey) {
    const used = Option.getOrUndefined(yield* store.usedKey(task.sub, key.value, yield* now))
    if (used === undefined) return yield* new RequestNotKept({})
    if (used.fingerprint !== key.fingerprint) return yield* new IdempotencyKeyReused({})
    return {
      uuid: used.taskId,
      maxExecutionTime: fields.maxExecutionTime ?? task.maxExecutionTime,
      isReplay: true
    }
  })

  /** The request of a task that repeats another one; undefined if it is not kept, or refers to a task that was deleted. */
  const repeat = Effect.fnUntraced(function*(uuid: TaskId, overrides: Overrides) {
    const stored = Option.getOrUndefined(yield* store.storedRequest(uuid))
    if (stored === undefined) return undefined
    const request = StoredRequest.repeat(uuid, yield* StoredRequest.read(stored.request), overrides.request)
    const resolved = yield* runRequests.resolve(request, false)
    if (resolved._tag === "Deleted") return undefined
    const whole = resolved._tag === "Whole" ? resolved.request : undefined
    const priority = Math.min(stored.priority, Limits.priority.ofUsers)
    return { ...stored, priority, callbackSecret: null, ...overrides.task, request, whole }
  })

  const rerun = Effect.fnUntraced(
    function*(...[caller, task, overrides, key]: Parameters<TaskRequests["Service"]["rerun"]>) {
      const repeated = yield* repeat(task.uuid, overrides)
      if (repeated !== undefined) return yield* tasks.create(caller, repeated, key)
      return key === undefined ? yield* new RequestNotKept({}) : yield* replay(task, overrides, key)
    }
  )

  const describe = Effect.fnUntraced(function*(uuid: TaskId) {
    const stored = Option.getOrUndefined(yield* store.storedRequest(uuid))
    const fields = stored && (yield* runRequests.read(stored.request))
    return stored === undefined || fields === undefined ? "null" : StoredRequest.describe(fields, stored)
  })

  return TaskRequests.of({ describe, rerun })
})
