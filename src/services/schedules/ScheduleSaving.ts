/** Saves schedules: each change is guarded by the revision that it was made from. */
import { Effect, Option, Schema } from "effect"
import type { Caller } from "../../domain/Principal.ts"
import type { StoreUnavailable } from "../../domain/StoreUnavailable.ts"
import { IdempotencyKeyReused } from "../../domain/TaskErrors.ts"
import { now } from "../../domain/Timestamp.ts"
import { type RequestKey, TaskStore } from "../store/tasks/TaskStore.ts"
import { type Definition, type Schedule, ScheduleId } from "./Schedule.ts"
import { type Changes, type Draft, makeDefining, makeIsSame } from "./ScheduleDrafts.ts"
import * as Errors from "./ScheduleErrors.ts"
import { type Inserted, type Refusal, SchedulesStore } from "./SchedulesStore.ts"
import { ScheduleWake } from "./ScheduleWake.ts"

export type Owned = Errors.ScheduleNotFound | Errors.ScheduleBelongsToAnother | StoreUnavailable
export type Unsaved =
  | Errors.InvalidSchedule
  | Errors.TooManySchedules
  | Errors.ScheduleKeyTaken
  | Errors.AuthorizationRevoked

/** Turns a refusal of the store into an error. */
const orRefuse = ({ _tag }: Refusal): Effect.Effect<never, Unsaved> => {
  switch (_tag) {
    case "TooMany":
      return Effect.fail(new Errors.TooManySchedules({}))
    case "KeyTaken":
      return Effect.fail(new Errors.ScheduleKeyTaken({}))
    case "Revoked":
      return Effect.fail(new Errors.AuthorizationRevoked({}))
  }
}

const isRefusal = (outcome: Inserted | Refusal | { readonly _tag: "Saved" | "Stale" }): outcome is Refusal =>
  outcome._tag === "TooMany" || outcome._tag === "KeyTaken" || outcome._tag === "Revoked"

/** Repeats a change of a schedule that a firing or another request changed in between. */
export const makeChange = Effect.map(Effect.all([SchedulesStore, ScheduleWake]), ([store, wake]) => ({
  change: Effect.fnUntraced(function*<E>(
    find: Effect.Effect<Schedule, Owned>,
    to: (before: Schedule) => Effect.Effect<Schedule, E>
  ): Effect.fn.Return<Schedule, Owned | E | Unsaved> {
    for (;;) {
      const before = yield* find
      const after = yield* to(before)
      if (after === before) return before
      const outcome = yield* store.save(after, before.revision)
      if (isRefusal(outcome)) return yield* orRefuse(outcome)
      if (outcome._tag !== "Saved") continue
      wake.noteSaved()
      return after
    }
  })
}))

export const makeSaving = Effect.gen(function*() {
  const { changed, newSchedule } = yield* makeDefining
  const isSame = yield* makeIsSame
  const store = yield* SchedulesStore
  const reads = yield* TaskStore
  const wake = yield* ScheduleWake
  const { change } = yield* makeChange

  const replay = Effect.fnUntraced(function*(id: string) {
    const schedule = Schema.is(ScheduleId)(id) ? yield* store.get(id) : undefined
    return schedule === undefined ? yield* new Errors.ScheduleNotFound({}) : { schedule, isReplay: true }
  })

  const create = Effect.fnUntraced(function*(caller: Caller, draft: Draft, key?: RequestKey) {
    if (key !== undefined) {
      // A repeated request is not checked again: its moment may have passed.
      const earlier = yield* reads.usedKey(caller.principal.sub, key.value, yield* now)
      if (Option.isSome(earlier)) {
        const { fingerprint, taskId } = earlier.value
        return fingerprint === key.fingerprint ? yield* replay(taskId) : yield* new IdempotencyKeyReused({})
      }
    }
    const schedule = yield* newSchedule(caller, draft)
    const outcome = yield* store.insert(schedule, key)
    if (isRefusal(outcome)) return yield* orRefuse(outcome)
    if (outcome._tag === "IdempotencyKeyReused") return yield* new IdempotencyKeyReused({})
    if (outcome._tag === "Replayed") return yield* replay(outcome.id)
    wake.noteSaved()
    return { schedule, isReplay: false }
  })

  const put = Effect.fnUntraced(function*(caller: Caller, draft: Draft & { readonly key: string }) {
    for (;;) {
      const before = yield* store.byKey(caller.principal.sub, draft.key)
      if (before === undefined) {
        const schedule = yield* newSchedule(caller, draft)
        const outcome = yield* store.insert(schedule)
        // A request at the same time was faster: its schedule is replaced.
        if (outcome._tag === "KeyTaken") continue
        if (isRefusal(outcome)) return yield* orRefuse(outcome)
        wake.noteSaved()
        return { schedule, isNew: true }
      }
      if (yield* isSame(before, draft)) return { schedule: before, isNew: false }
      const after = yield* changed(caller, before, draft)
      const outcome = yield* store.save(after, before.revision)
      if (isRefusal(outcome)) return yield* orRefuse(outcome)
      if (outcome._tag !== "Saved") continue
      wake.noteSaved()
      return { schedule: after, isNew: false }
    }
  })

  const update = (
    caller: Caller,
    find: Effect.Effect<Schedule, Owned>,
    { definition, key, task }: Changes,
    isWanted: (schedule: Schedule) => boolean
  ) =>
    change(find, (before): Effect.Effect<Schedule, Errors.ScheduleChanged | Errors.InvalidSchedule> =>
      isWanted(before)
        ? changed(caller, before, {
          key: key === undefined ? before.key : key,
          definition: merge(before.definition, definition),
          task
        })
        : Effect.fail(new Errors.ScheduleChanged({})))

  return { create, put, update }
})

/** A field that was not given gives way to one that excludes it. */
const merge = (before: Definition, given: Partial<Definition>): Definition => {
  const merged = { ...before, ...given }
  const none = {
    cron: merged.type === "once" && given.cron === undefined,
    runAt: given.runAt === undefined && (merged.type === "cron" || typeof given.delay === "number"),
    delay: given.delay === undefined && (merged.type === "cron" || typeof given.runAt === "number")
  }
  return {
    ...merged,
    cron: none.cron ? null : merged.cron,
    runAt: none.runAt ? null : merged.runAt,
    delay: none.delay ? null : merged.delay
  }
}
