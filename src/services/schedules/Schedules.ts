/** The use cases of schedules for REST and RPC. */
import { Context, Effect, Layer, Redacted, Schema } from "effect"
import type { Caller, Principal } from "../../domain/Principal.ts"
import type { StoreUnavailable } from "../../domain/StoreUnavailable.ts"
import type { CreateRefused, IdempotencyKeyReused, TooManyActiveTasks } from "../../domain/TaskErrors.ts"
import { now } from "../../domain/Timestamp.ts"
import type { RequestKey } from "../store/tasks/TaskStore.ts"
import type { CreatedTask } from "../tasks/Create.ts"
import { Tasks } from "../tasks/Tasks.ts"
import { Secrets } from "../tokens/Secrets.ts"
import { type Schedule, ScheduleId } from "./Schedule.ts"
import type { Changes, Draft } from "./ScheduleDrafts.ts"
import * as Errors from "./ScheduleErrors.ts"
import { makeSaving, type Owned, type Unsaved } from "./ScheduleSaving.ts"
import { SchedulesStore } from "./SchedulesStore.ts"
import * as ScheduleStates from "./ScheduleStates.ts"
import { TaskBodies, type TaskBodyRefused } from "./TaskBodies.ts"

export class Schedules extends Context.Service<Schedules, {
  readonly create: (
    caller: Caller,
    draft: Draft,
    key?: RequestKey
  ) => Effect.Effect<
    { readonly schedule: Schedule; readonly isReplay: boolean },
    Unsaved | IdempotencyKeyReused | Errors.ScheduleNotFound | StoreUnavailable
  >
  /** Creates the schedule with a key or replaces it. An equal one stays as it is. */
  readonly put: (
    caller: Caller,
    draft: Draft & { readonly key: string }
  ) => Effect.Effect<{ readonly schedule: Schedule; readonly isNew: boolean }, Unsaved | StoreUnavailable>
  /** A schedule that the caller owns. */
  readonly get: (principal: Principal, id: string) => Effect.Effect<Schedule, Owned>
  /** `isWanted` says whether the version is one that the caller expects. */
  readonly update: (
    caller: Caller,
    id: string,
    changes: Changes,
    isWanted: (schedule: Schedule) => boolean
  ) => Effect.Effect<Schedule, Owned | Unsaved | Errors.ScheduleChanged>
  readonly pause: (
    principal: Principal,
    id: string,
    reason: string | null
  ) => Effect.Effect<Schedule, Owned | Errors.ScheduleHasEnded>
  readonly resume: (caller: Caller, id: string) => Effect.Effect<Schedule, Owned | Unsaved | Errors.ScheduleHasEnded>
  /** Creates a task of the schedule now. */
  readonly trigger: (
    caller: Caller,
    id: string,
    key?: RequestKey
  ) => Effect.Effect<
    CreatedTask,
    Owned | Errors.ScheduleHasEnded | TaskBodyRefused | CreateRefused | TooManyActiveTasks | IdempotencyKeyReused
  >
  readonly delete: (principal: Principal, id: string) => Effect.Effect<void, Owned>
}>()("async-task-service/services/schedules/Schedules") {
  static readonly layer = Layer.effect(Schedules, Effect.suspend(() => make))
}

const make = Effect.gen(function*() {
  const store = yield* SchedulesStore
  const tasks = yield* Tasks
  const secrets = yield* Secrets
  const bodies = yield* TaskBodies
  const saving = yield* makeSaving
  const { pause, resume } = yield* ScheduleStates.make

  const get = Effect.fnUntraced(function*(principal: Principal, id: string) {
    const found = Schema.is(ScheduleId)(id) ? yield* store.get(id) : undefined
    if (found === undefined) return yield* new Errors.ScheduleNotFound({})
    if (found.sub !== principal.sub) return yield* new Errors.ScheduleBelongsToAnother({})
    return found
  })

  return Schedules.of({
    create: saving.create,
    put: saving.put,
    get,
    update: (caller, id, changes, isWanted) => saving.update(caller, get(caller.principal, id), changes, isWanted),
    pause: (principal, id, reason) => pause(get(principal, id), reason),
    resume: (caller, id) => resume(caller, get(caller.principal, id)),
    trigger: Effect.fnUntraced(function*(caller, id, key) {
      const { callbackSecret, id: scheduleId, state, task } = yield* get(caller.principal, id)
      if (state === "ended") return yield* new Errors.ScheduleHasEnded({})
      const body = yield* bodies.decode(task)
      const secret = callbackSecret === null
        ? null
        : Redacted.value(yield* secrets.open("callback-secret", callbackSecret))
      const at = yield* now
      // A client that disconnects must not leave a task that its schedule does not list.
      return yield* Effect.uninterruptible(
        Effect.tap(
          tasks.create(caller, { ...body, callbackSecret: secret }, key),
          ({ uuid }) => store.addTriggered(scheduleId, at, uuid)
        )
      )
    }),
    delete: (principal, id) => Effect.flatMap(get(principal, id), (found) => store.delete(found.id))
  })
})
