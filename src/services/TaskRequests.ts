/** Metadata, stored requests, and tasks that run a stored request again. */
import { Context, Effect, Layer, Option } from "effect"
import type { Caller } from "../domain/Principal.ts"
import type { StoreUnavailable } from "../domain/StoreUnavailable.ts"
import type { TaskHead } from "../domain/Task.ts"
import { IdempotencyKeyReused, RequestNotKept, type TooManyActiveTasks } from "../domain/TaskErrors.ts"
import { override, type Overrides } from "../domain/TaskRerun.ts"
import { now } from "../domain/Timestamp.ts"
import { TaskReads } from "./store/TaskReads.ts"
import type { IdempotencyClaim } from "./store/TaskWrites.ts"
import { type CreatedTask, Tasks } from "./Tasks.ts"

export class TaskRequests extends Context.Service<TaskRequests, {
  /** The metadata of those tasks that are the user's and have metadata. */
  readonly metadata: TaskReads["Service"]["metadata"]
  readonly storedRequest: TaskReads["Service"]["storedRequest"]
  /** Creates a task with the request of `task`, some fields of it replaced. */
  readonly rerun: (
    caller: Caller,
    task: TaskHead,
    overrides: Overrides,
    claim?: IdempotencyClaim
  ) => Effect.Effect<CreatedTask, RequestNotKept | TooManyActiveTasks | IdempotencyKeyReused | StoreUnavailable>
}>()("async-task-service/services/TaskRequests") {
  static readonly layer = Layer.effect(TaskRequests, Effect.suspend(() => make))
}

const make = Effect.gen(function*() {
  const reads = yield* TaskReads
  const tasks = yield* Tasks

  /** The outcome of a repeated request, which does not need the original's request. */
  const replay = Effect.fnUntraced(function*(task: TaskHead, { task: fields }: Overrides, claim: IdempotencyClaim) {
    const claimed = Option.getOrUndefined(yield* reads.claimed(task.sub, claim.key, yield* now))
    if (claimed === undefined) return yield* new RequestNotKept({})
    if (claimed.fingerprint !== claim.fingerprint) return yield* new IdempotencyKeyReused({})
    return {
      uuid: claimed.taskId,
      maxExecutionTime: fields.max_execution_time ?? task.maxExecutionTime,
      isReplay: true
    }
  })

  const rerun = Effect.fnUntraced(
    function*(...[caller, task, overrides, claim]: Parameters<TaskRequests["Service"]["rerun"]>) {
      const stored = Option.getOrUndefined(yield* reads.storedRequest(task.uuid))
      if (stored !== undefined) return yield* tasks.create(caller, override(stored, overrides), claim)
      return claim === undefined ? yield* new RequestNotKept({}) : yield* replay(task, overrides, claim)
    }
  )

  return TaskRequests.of({ metadata: reads.metadata, storedRequest: reads.storedRequest, rerun })
})
