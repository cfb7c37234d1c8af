/** The contract of `SchedulesStore`, run on memory and on Postgres. Each test deletes its schedules, because claims are of all users. */
import { assert, type Vitest } from "@effect/vitest"
import { Duration, Effect } from "effect"
import type { SecureRandom } from "effect/crypto"
import { plus, Timestamp } from "../../../src/domain/Timestamp.ts"
import {
  defaults,
  type Definition,
  type Outcome,
  type Schedule,
  ScheduleId
} from "../../../src/services/schedules/Schedule.ts"
import { type Attempted, type FiringClaim, SchedulesStore } from "../../../src/services/schedules/SchedulesStore.ts"
import type { TaskStore } from "../../../src/services/store/tasks/TaskStore.ts"
import { commit, stored, uuid } from "../../kit/StoredTasks.ts"

const lease = Duration.seconds(10)

/** Seconds from the beginning of the tests' time. */
const at = (seconds: number) => plus(Timestamp.make(0), Duration.seconds(seconds))

const definition: Definition = { ...defaults, cron: "* * * * *" }

const newSchedule = Effect.fnUntraced(function*(overrides: Partial<Schedule> = {}) {
  const schedule: Schedule = {
    id: ScheduleId.make(yield* uuid),
    sub: `user-${yield* uuid}`,
    key: null,
    definition,
    task: `{"assistant_id":1}`,
    callbackSecret: "sealed",
    state: "active",
    pausedReason: null,
    nextAt: at(60),
    lastAt: null,
    revision: 0,
    version: 0,
    authorization: { tokenId: `token-${yield* uuid}`, issuedAt: 1_700_000_000, at: at(0), token: null },
    taskFailures: 0,
    tokenFailures: 0,
    createdAt: at(0),
    endedAt: null,
    ...overrides
  }
  return schedule
})

const made = Effect.fnUntraced(function*(overrides: Partial<Schedule> = {}) {
  const store = yield* SchedulesStore
  const schedule = yield* newSchedule(overrides)
  yield* Effect.acquireRelease(store.insert(schedule), () => Effect.orDie(store.delete(schedule.id)))
  return schedule
})

const paused = { state: "paused", pausedReason: { type: "manual", message: "x" } } as const

const claimOf = ({ id }: Schedule, due: Timestamp, next: Timestamp | null): FiringClaim => ({
  id,
  due,
  next,
  nextDue: next,
  last: due,
  run: due,
  missed: undefined
})

const attempted = (scheduleId: ScheduleId, scheduledFor: Timestamp, outcome: Outcome): Attempted => ({
  scheduleId,
  scheduledFor,
  outcome,
  startedAt: null,
  taskId: null,
  error: null,
  tryAt: null,
  lacksToken: null
})

/** Fires a moment: claims it, creates its task if there is one, and records it. */
const fired = Effect.fnUntraced(function*(schedule: Schedule, moment: Timestamp, more: Partial<Attempted> = {}) {
  const store = yield* SchedulesStore
  const claimed = yield* store.claim([claimOf(schedule, moment, plus(moment, "60 seconds"))], moment, lease)
  yield* store.record([{ ...attempted(schedule.id, moment, "created"), ...more }], moment)
  return claimed
})

type ScheduleTests = Vitest.MethodsNonLive<SchedulesStore | TaskStore | SecureRandom.SecureRandom>

const definitions = (it: ScheduleTests) => {
  it.effect("returns schedules as they were saved, by id, by key and by state, newest first", () =>
    Effect.gen(function*() {
      const store = yield* SchedulesStore
      const first = yield* made({ key: "k" })
      const second = yield* made({ sub: first.sub, ...paused, nextAt: null, createdAt: at(1) })
      assert.deepStrictEqual(yield* store.get(first.id), first)
      assert.deepStrictEqual(yield* store.byKey(first.sub, "k"), first)
      assert.isUndefined(yield* store.byKey(second.id, "k"))
      const list = (...given: Parameters<typeof store.list> extends [string, ...infer Rest] ? Rest : never) =>
        Effect.map(store.list(first.sub, ...given), ({ schedules, total }) => [schedules.map(({ id }) => id), total])
      assert.deepStrictEqual(yield* list([], 1, 10), [[second.id, first.id], 2])
      assert.deepStrictEqual(yield* list([], 2, 1), [[first.id], 2])
      assert.deepStrictEqual(yield* list(["paused", "ended"], 1, 10), [[second.id], 1])
      yield* store.delete(first.id)
      assert.isUndefined(yield* store.get(first.id))
    }))

  it.effect("refuses a key that its user has, and more than 100 that are not ended", () =>
    Effect.gen(function*() {
      const store = yield* SchedulesStore
      const { sub } = yield* made({ key: "taken" })
      assert.deepStrictEqual(yield* store.insert(yield* newSchedule({ sub, key: "taken" })), { _tag: "KeyTaken" })
      yield* made({ key: "taken" })
      yield* Effect.forEach(Array.from({ length: 99 }), () => made({ sub }), { discard: true })
      const one = yield* newSchedule({ sub })
      assert.deepStrictEqual(yield* store.insert(one), { _tag: "TooMany" })
      const ended = yield* made({ sub, state: "ended", endedAt: at(1), nextAt: null })
      const active: Schedule = { ...ended, state: "active", endedAt: null, revision: 1 }
      assert.deepStrictEqual(yield* store.save(active, 0), { _tag: "TooMany" })
    }))

  it.effect("counts one that has ended while its run waits, and keeps it", () =>
    Effect.gen(function*() {
      const store = yield* SchedulesStore
      const waiting = yield* made({ definition: { ...defaults, type: "once", delay: 60 } })
      const { sub } = waiting
      yield* store.claim([claimOf(waiting, at(60), null)], at(60), lease)
      assert.strictEqual((yield* store.get(waiting.id))?.state, "ended")
      yield* Effect.forEach(Array.from({ length: 99 }), () => made({ sub }), { discard: true })
      assert.deepStrictEqual(yield* store.insert(yield* newSchedule({ sub })), { _tag: "TooMany" })
      yield* store.record([attempted(waiting.id, at(60), "created")], at(61))
      yield* made({ sub })
    }))

  it.effect("keeps the newest 200 of a user that have ended", () =>
    Effect.gen(function*() {
      const store = yield* SchedulesStore
      const waiting = yield* made()
      const { sub } = waiting
      yield* store.claim([claimOf(waiting, at(60), null)], at(60), lease)
      const ended = yield* Effect.forEach(
        Array.from({ length: 201 }, (_, index) => index),
        (index) => made({ sub, state: "ended", endedAt: at(100 + index), nextAt: null }),
        { concurrency: 8 }
      )
      const other = yield* made({ state: "ended", endedAt: at(100), nextAt: null })
      assert.isUndefined(yield* store.get(ended[0]!.id))
      assert.isDefined(yield* store.get(ended[1]!.id))
      assert.isDefined(yield* store.get(waiting.id))
      assert.isDefined(yield* store.get(other.id))
    }))

  it.effect("inserts once for an idempotency key", () =>
    Effect.gen(function*() {
      const store = yield* SchedulesStore
      const { id, sub } = yield* made()
      const key = { value: "k", fingerprint: "one" }
      const first = yield* newSchedule({ sub })
      yield* Effect.addFinalizer(() => Effect.orDie(store.delete(first.id)))
      assert.deepStrictEqual(yield* store.insert(first, key), { _tag: "Saved" })
      const again = yield* newSchedule({ sub })
      assert.deepStrictEqual(yield* store.insert(again, key), { _tag: "Replayed", id: first.id })
      const other = { ...key, fingerprint: "two" }
      assert.deepStrictEqual(yield* store.insert(again, other), { _tag: "IdempotencyKeyReused" })
      assert.notStrictEqual(first.id, id)
    }))

  it.effect("saves only what is still at the revision that was read", () =>
    Effect.gen(function*() {
      const store = yield* SchedulesStore
      const before = yield* made()
      const after: Schedule = {
        ...before,
        ...paused,
        definition: { ...definition, name: "n" },
        revision: 1,
        version: 1
      }
      assert.deepStrictEqual(yield* store.save(after, 0), { _tag: "Saved" })
      assert.deepStrictEqual(yield* store.save({ ...after, key: "late" }, 0), { _tag: "Stale" })
      assert.deepStrictEqual(yield* store.get(before.id), after)
    }))
}

const claims = (it: ScheduleTests) => {
  it.effect("finds active schedules whose moment has come, the earliest first", () =>
    Effect.gen(function*() {
      const store = yield* SchedulesStore
      const late = yield* made({ nextAt: at(50) })
      const early = yield* made({ nextAt: at(40) })
      yield* made({ nextAt: at(70) })
      yield* made({ nextAt: at(30), ...paused })
      const ids = (limit: number) => Effect.map(store.due(at(60), limit), (due) => due.map(({ id }) => id))
      assert.deepStrictEqual(yield* ids(10), [early.id, late.id])
      assert.deepStrictEqual(yield* ids(1), [early.id])
      assert.strictEqual(yield* store.nextDue(), at(40))
    }))

  it.effect("gives a moment to one claim only, with its run and what was missed", () =>
    Effect.gen(function*() {
      const store = yield* SchedulesStore
      const before = yield* made()
      const claim = {
        ...claimOf(before, at(60), at(240)),
        last: at(180),
        run: at(180),
        missed: { from: at(60), count: 2 }
      }
      const [run, ...more] = yield* store.claim([claim], at(185), lease)
      assert.deepStrictEqual([run?.schedule.id, run?.scheduledFor, run?.attempt, run?.isOverlapping, more], [
        before.id,
        at(180),
        1,
        false,
        []
      ])
      assert.deepStrictEqual(yield* store.claim([claim], at(185), lease), [])
      const { lastAt, nextAt, revision, state } = (yield* store.get(before.id))!
      assert.deepStrictEqual([lastAt, nextAt, revision, state], [at(180), at(240), 1, "active"])
      const { runs, total } = yield* store.runs(before.id, 1, 10)
      const base = { startedAt: null, taskId: null, error: null }
      assert.deepStrictEqual([runs, total], [[
        { ...base, scheduledFor: at(180), outcome: "due", count: 1 },
        { ...base, scheduledFor: at(60), outcome: "missed", count: 2 }
      ], 2])
      assert.deepStrictEqual((yield* store.runs(before.id, 2, 1)).runs[0]?.scheduledFor, at(60))
    }))

  it.effect("ends a schedule without another moment, and claims nothing of a paused one", () =>
    Effect.gen(function*() {
      const store = yield* SchedulesStore
      const last = yield* made()
      const stopped = yield* made(paused)
      const claimed = yield* store.claim([claimOf(last, at(60), null), claimOf(stopped, at(60), null)], at(61), lease)
      assert.deepStrictEqual(claimed.map(({ schedule: { id } }) => id), [last.id])
      const { endedAt, nextAt, state } = (yield* store.get(last.id))!
      assert.deepStrictEqual([endedAt, nextAt, state], [at(61), null, "ended"])
      assert.strictEqual((yield* store.get(stopped.id))?.state, "paused")
    }))

  it.effect("takes runs over after their lease or pause", () =>
    Effect.gen(function*() {
      const store = yield* SchedulesStore
      const schedule = yield* made()
      yield* store.claim([claimOf(schedule, at(60), null)], at(60), lease)
      assert.strictEqual(yield* store.nextDue(), at(70))
      assert.deepStrictEqual(yield* store.takeOver(at(69), lease, 10), [])
      const [again] = yield* store.takeOver(at(70), lease, 10)
      assert.deepStrictEqual([again?.scheduledFor, again?.attempt], [at(60), 2])
      assert.deepStrictEqual(yield* store.takeOver(at(70), lease, 10), [])
      const waiting = { ...attempted(schedule.id, at(60), "waiting"), error: "No slot", tryAt: at(75) }
      yield* store.record([waiting], at(71))
      const [third] = yield* store.takeOver(at(75), lease, 10)
      assert.deepStrictEqual([third?.attempt, third?.error], [3, "No slot"])
      yield* store.record([attempted(schedule.id, at(60), "missed")], at(76))
      assert.deepStrictEqual(yield* store.takeOver(at(1000), lease, 10), [])
      yield* store.record([attempted(schedule.id, at(60), "failed")], at(77))
      assert.deepStrictEqual((yield* store.runs(schedule.id, 1, 10)).runs.map(({ outcome }) => outcome), ["missed"])
    }))

  it.effect("says whether the task before is active, unless that was triggered", () =>
    Effect.gen(function*() {
      const store = yield* SchedulesStore
      const schedule = yield* made()
      const triggered = yield* stored()
      yield* store.addTriggered(schedule.id, at(30), triggered.uuid)
      const task = yield* stored()
      const [first] = yield* fired(schedule, at(60), { taskId: task.uuid, startedAt: at(61) })
      const [second] = yield* fired(schedule, at(120), { outcome: "skipped_overlap" })
      yield* commit(task.uuid, "Completed")
      const [third] = yield* fired(schedule, at(180))
      assert.deepStrictEqual([first, second, third].map((run) => run?.isOverlapping), [false, true, false])
    }))
}

const outcomes = (it: ScheduleTests) => {
  it.effect("pauses a schedule after three runs in a row without a token", () =>
    Effect.gen(function*() {
      const store = yield* SchedulesStore
      const schedule = yield* made()
      const fail = (minute: number) =>
        fired(schedule, at(minute * 60), { outcome: "failed", error: "No token", lacksToken: true })
      for (const minute of [1, 2]) yield* fail(minute)
      yield* fired(schedule, at(180), { taskId: (yield* stored()).uuid, startedAt: at(181) })
      for (const minute of [4, 5]) yield* fail(minute)
      assert.strictEqual((yield* store.get(schedule.id))?.state, "active")
      yield* fail(6)
      const { pausedReason, revision, state } = (yield* store.get(schedule.id))!
      assert.deepStrictEqual([state, pausedReason?.type, revision], ["paused", "token", 7])
    }))

  it.effect("pauses a schedule after so many failed tasks in a row", () =>
    Effect.gen(function*() {
      const store = yield* SchedulesStore
      const schedule = yield* made({ definition: { ...definition, pauseAfterFailures: 2 } })
      const run = Effect.fnUntraced(function*(minute: number, end: "Completed" | "Failed") {
        const { uuid } = yield* stored()
        yield* fired(schedule, at(minute * 60), { taskId: uuid, startedAt: at(minute * 60) })
        assert.deepStrictEqual(yield* store.settle(at(minute * 60), 100), [])
        yield* commit(uuid, end)
        return yield* store.settle(at(minute * 60), 100)
      })
      assert.deepStrictEqual(yield* run(1, "Failed"), [])
      assert.deepStrictEqual(yield* run(2, "Completed"), [])
      assert.deepStrictEqual(yield* run(3, "Failed"), [])
      assert.deepStrictEqual(yield* run(4, "Failed"), [schedule.id])
      const { pausedReason, state } = (yield* store.get(schedule.id))!
      assert.deepStrictEqual([state, pausedReason], [
        "paused",
        { type: "failures", message: "Its last 2 tasks failed" }
      ])
    }))

  it.effect("lists a triggered task once, and finds tasks by their schedule and back", () =>
    Effect.gen(function*() {
      const store = yield* SchedulesStore
      const schedule = yield* made()
      const [one, two] = [(yield* stored()).uuid, (yield* stored()).uuid]
      yield* store.addTriggered(schedule.id, at(10), one)
      yield* store.addTriggered(schedule.id, at(11), one)
      yield* store.addTriggered(schedule.id, at(10), two)
      const { runs } = yield* store.runs(schedule.id, 1, 10)
      assert.deepStrictEqual(runs.map(({ scheduledFor, taskId }) => [taskId, scheduledFor]), [
        [two, Timestamp.make(at(10) + 1)],
        [one, at(10)]
      ])
      assert.deepStrictEqual(yield* store.tasksOf(schedule.sub, schedule.id), [two, one])
      assert.deepStrictEqual(yield* store.tasksOf("another", schedule.id), [])
      assert.deepStrictEqual(yield* store.ofTasks([one, (yield* stored()).uuid]), [
        { taskId: one, scheduleId: schedule.id, scheduledFor: at(10) }
      ])
    }))

  it.effect("deletes old runs, but none that is pending, and schedules that ended long ago", () =>
    Effect.gen(function*() {
      const store = yield* SchedulesStore
      const schedule = yield* made()
      yield* fired(schedule, at(60))
      yield* store.claim([claimOf(schedule, at(120), at(180))], at(120), lease)
      const ended = yield* made({ state: "ended", endedAt: at(100), nextAt: null })
      yield* Effect.repeat(store.deleteExpired(at(200), 100), { while: (count) => count > 0 })
      assert.isUndefined(yield* store.get(ended.id))
      const { runs } = yield* store.runs(schedule.id, 1, 10)
      assert.deepStrictEqual(runs.map(({ scheduledFor }) => scheduledFor), [at(120)])
    }))
}

export const contract = (it: ScheduleTests) => {
  definitions(it)
  claims(it)
  outcomes(it)
}
