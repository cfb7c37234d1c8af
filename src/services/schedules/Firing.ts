/**
 * Fires schedules. The sweep of every node claims moments that have come: one node wins each, and the run is a row. Any node works rows
 * off after a lease, and creates their task under a key made of schedule and moment: whatever dies in between, there is one task.
 */
import { Cause, Context, Duration, Effect, FiberSet, Layer, Option, PartitionedSemaphore, Redacted } from "effect"
import * as Backoff from "../../domain/Backoff.ts"
import { pauseWithin } from "../../domain/DispatchRetry.ts"
import type { StoreUnavailable } from "../../domain/StoreUnavailable.ts"
import type { TaskId } from "../../domain/Task.ts"
import { now, plus, type Timestamp } from "../../domain/Timestamp.ts"
import { Settings } from "../settings/Settings.ts"
import { PendingWork } from "../store/PendingWork.ts"
import * as Batcher from "../store/sql/Batcher.ts"
import { TaskStore } from "../store/tasks/TaskStore.ts"
import { Tasks } from "../tasks/Tasks.ts"
import { Intervals } from "../timing/Intervals.ts"
import { logFault } from "../timing/Retry.ts"
import * as ScanFloor from "../timing/ScanFloor.ts"
import * as Worker from "../timing/Worker.ts"
import { Secrets } from "../tokens/Secrets.ts"
import { TokenRevocations } from "../tokens/TokenRevocations.ts"
import { RunTokens } from "./RunTokens.ts"
import { dueAt, fire, keyTtl, lease, limits, type Outcome, type ScheduleId, windowEnd } from "./Schedule.ts"
import * as Metrics from "./ScheduleMetrics.ts"
import {
  type Attempted,
  type DueSchedule,
  type FiringClaim,
  type PendingRun,
  SchedulesStore
} from "./SchedulesStore.ts"
import { ScheduleWake } from "./ScheduleWake.ts"
import { TaskBodies } from "./TaskBodies.ts"

/** Schedules or runs of one claim. */
const batch = 100
/** Runs that this node holds at a time, so that all are done before their lease ends. It claims the next batch while half are left. */
const maxHeld = 2 * batch
/** Runs that create their task at a time. */
const concurrency = 64
const settledBatch = 500

const deletionBatch = 1000

/** Pauses of a run that waits. */
const firstPause = Duration.seconds(1)
const longestPause = Duration.seconds(15)
/** Between an attempt and the end of its window, when no other follows. */
const shortlyBefore = Duration.millis(2500)
/** A queued run starts soon after the end of the task before. */
const queuePause = Duration.seconds(2)

export class Firing extends Context.Service<Firing, {
  /** Claims and works off what is due now, and waits for its end. */
  readonly runOnce: Effect.Effect<void, StoreUnavailable>
}>()("async-task-service/services/schedules/Firing") {
  static readonly layer = Layer.effect(Firing, Effect.suspend(() => make))
}

/** No `Idempotency-Key` of a client has a space. */
const keyOf = (id: ScheduleId, moment: Timestamp) => `schedule ${id} ${moment}`

const noToken = "No token: "

interface Reached {
  readonly outcome: Outcome
  readonly taskId?: TaskId
  readonly error?: string
  readonly lacksToken?: boolean
  /** The longest time of a waiting run. */
  readonly longest?: Duration.Duration
}

/** Creates the task of a run. */
const makeCreate = Effect.gen(function*() {
  const tasks = yield* Tasks
  const tokens = yield* RunTokens
  const secrets = yield* Secrets
  const bodies = yield* TaskBodies

  return Effect.fnUntraced(function*({ schedule, scheduledFor }: PendingRun) {
    const caller = yield* tokens.callerFor(schedule)
    const body = yield* bodies.decode(schedule.task)
    const sealed = schedule.callbackSecret
    const callbackSecret = sealed === null ? null : Redacted.value(yield* secrets.open("callback-secret", sealed))
    const { uuid } = yield* tasks.create(
      caller,
      { ...body, callbackSecret },
      { value: keyOf(schedule.id, scheduledFor), fingerprint: "", keptFor: keyTtl }
    )
    const reached: Reached = { outcome: "created", taskId: uuid }
    return reached
  }, (effect) =>
    effect.pipe(
      Effect.catchTags({
        TokenRefused: ({ reason }) =>
          Effect.succeed<Reached>({ outcome: "failed", error: noToken + reason, lacksToken: true }),
        TokenUnavailable: ({ reason }) => Effect.succeed<Reached>({ outcome: "waiting", error: noToken + reason }),
        TaskBodyRefused: ({ message }) => Effect.succeed<Reached>({ outcome: "failed", error: message }),
        TooManyActiveTasks: ({ message }) => Effect.succeed<Reached>({ outcome: "waiting", error: message }),
        CreateRefused: ({ message }) => Effect.succeed<Reached>({ outcome: "waiting", error: message }),
        IdempotencyKeyReused: Effect.die
      })
    ))
})

/** Creates the task of a run, or says why it has none. */
const makeAttempt = Effect.gen(function*() {
  const reads = yield* TaskStore
  const revocations = yield* TokenRevocations
  const create = yield* makeCreate

  /** A node may have created the task and died before it recorded it. */
  const orCreated = Effect.fnUntraced(function*({ schedule, scheduledFor }: PendingRun, otherwise: Reached) {
    const used = yield* reads.usedKey(schedule.sub, keyOf(schedule.id, scheduledFor), yield* now)
    return Option.match(used, {
      onNone: () => otherwise,
      onSome: ({ taskId }): Reached => ({ outcome: "created", taskId })
    })
  })

  /** The end of a run that waited until it was too late. */
  const late = ({ error }: PendingRun): Reached =>
    error?.startsWith(noToken)
      ? { outcome: "failed", error, lacksToken: true }
      : { outcome: "missed", ...(error === null ? {} : { error }) }

  const isRevoked = ({ schedule: { authorization: { issuedAt, tokenId }, sub } }: PendingRun) =>
    revocations.check({ sub, tokenId, issuedAt }).pipe(
      Effect.as(false),
      Effect.catchTags({ TokenIsRevoked: () => Effect.succeed(true), RevocationsUnknown: () => Effect.succeed(false) })
    )

  return Effect.fnUntraced(function*(run: PendingRun) {
    const { attempt, isOverlapping, schedule, scheduledFor } = run
    const { definition, id, lastAt, state } = schedule
    const isOver = (yield* now) >= windowEnd(id, definition, scheduledFor)
    // A later moment was claimed meanwhile.
    const isSuperseded = attempt > 1 && lastAt !== null && lastAt > scheduledFor
    if (isOver || isSuperseded) return yield* orCreated(run, late(run))
    if (state === "paused") return yield* orCreated(run, { outcome: "missed", error: "The schedule was paused" })
    if (yield* isRevoked(run)) {
      return yield* orCreated(run, { outcome: "failed", error: "The token that authorized the schedule is revoked" })
    }
    if (isOverlapping && definition.overlap === "skip") return { outcome: "skipped_overlap" } satisfies Reached
    if (isOverlapping && definition.overlap === "queue") {
      const error = "The task before has not ended"
      return { outcome: "waiting", error, longest: queuePause } satisfies Reached
    }
    return yield* create(run)
  })
})

/** The last attempt uses what is left of the window. One that was made shortly before its end was the last. */
const nextTry = (at: Timestamp, wanted: Duration.Duration, end: Timestamp): Timestamp => {
  const left = Duration.millis(Math.max(0, (end - at) / 1000))
  const { isLast, pause } = pauseWithin(wanted, left)
  return isLast && Duration.isLessThan(left, shortlyBefore) ? end : plus(at, pause)
}

const claimOf = ({ definition, id, nextAt }: DueSchedule, at: Timestamp): FiringClaim => {
  const { last, missed, next, run } = fire(id, definition, nextAt, at)
  const nextDue = next === null ? null : dueAt(id, definition, next)
  return { id, due: nextAt, next, nextDue, last, run, missed }
}

/** Works runs off in fibers of their own, and records what came of them in batches. */
const makeRuns = Effect.gen(function*() {
  const store = yield* SchedulesStore
  const { latch: wake } = yield* ScheduleWake
  const attempt = yield* makeAttempt
  const fibers = yield* FiberSet.make()
  const permits = PartitionedSemaphore.makeUnsafe({ permits: concurrency }).withPermit("")
  const record = yield* Batcher.make({
    run: (attempted: ReadonlyArray<Attempted>) =>
      Effect.as(Effect.flatMap(now, (at) => store.record(attempted, at)), attempted.map(() => true)),
    lockOf: ({ scheduleId }) => scheduleId,
    keyOf: ({ scheduleId }) => scheduleId
  })
  let held = 0

  const workOff = Effect.fnUntraced(function*(run: PendingRun) {
    const { schedule: { definition, id }, scheduledFor } = run
    // The record waits without a permit, so that many share a statement.
    const reached: Reached = yield* permits(attempt(run))
    const at = yield* now
    const pause = Backoff.delayAfter(run.attempt - 1, firstPause, reached.longest ?? longestPause)
    const end = windowEnd(id, definition, scheduledFor)
    yield* record({
      scheduleId: id,
      scheduledFor,
      outcome: reached.outcome,
      startedAt: reached.outcome === "created" ? at : null,
      taskId: reached.taskId ?? null,
      error: reached.error ?? null,
      tryAt: reached.outcome === "waiting" ? nextTry(at, pause, end) : null,
      lacksToken: reached.lacksToken ?? null
    })
    if (reached.outcome === "waiting") wake.openUnsafe()
    else {
      Metrics.firings.add(1, reached.outcome)
      if (reached.outcome === "created" && run.attempt === 1) {
        Metrics.lateness.record((at - dueAt(id, definition, scheduledFor)) / 1_000_000)
      }
    }
  })

  /** A run that fails is worked off again after its lease. */
  const start = (run: PendingRun) =>
    Effect.suspend(() => {
      held++
      return FiberSet.run(
        fibers,
        workOff(run).pipe(
          Effect.catchCauseIf(
            (cause) => !Cause.hasInterrupts(cause),
            (cause) =>
              Effect.annotateLogs(logFault("a run of a schedule failed")(cause), { scheduleId: run.schedule.id })
          ),
          Effect.ensuring(Effect.sync(() => {
            held--
            if (held === maxHeld - batch) wake.openUnsafe()
          }))
        )
      )
    })

  return { hasRoom: () => held <= maxHeld - batch, start, drained: FiberSet.awaitEmpty(fibers) }
})

const startDeletion = Effect.gen(function*() {
  const store = yield* SchedulesStore
  const intervals = yield* Intervals
  const expire = Effect.gen(function*() {
    const before = plus(yield* now, Duration.negate(limits.kept))
    yield* store.deleteExpired(before, deletionBatch).pipe(Effect.repeat({ while: (count) => count >= deletionBatch }))
  })
  yield* Worker.make({
    name: "the deletion of ended schedules and old runs",
    runOnce: expire,
    interval: Duration.times(intervals.retention, 10),
    isDelayed: true
  })
})

/** Claims what is due, as far as there is room. */
const makeWorkOff = Effect.fnUntraced(function*(runs: Effect.Success<typeof makeRuns>) {
  const store = yield* SchedulesStore
  const { takeSaved } = yield* ScheduleWake

  /** Returns whether more may be due. */
  const claimDue = Effect.fnUntraced(function*(from: Timestamp) {
    const at = yield* now
    const due = yield* store.due(at, batch, from)
    const claims = due.map((schedule) => claimOf(schedule, at))
    for (const { missed } of claims) if (missed !== undefined) Metrics.firings.add(missed.count, "missed")
    const claimed = claims.length === 0 ? [] : yield* store.claim(claims, at, lease)
    yield* Effect.forEach(claimed, runs.start, { discard: true })
    return due.length === batch
  })

  const takeOver = Effect.fnUntraced(function*(from: Timestamp) {
    const found = yield* store.takeOver(yield* now, lease, batch, from)
    yield* Effect.forEach(found, runs.start, { discard: true })
    return found.length === batch
  })

  let sweeps = 0
  const floor = ScanFloor.make()
  let from = ScanFloor.lowest

  /** Goes on while there is room. The two take turns to be first, so that neither uses up the room of the other. */
  const workOffDue = Effect.gen(function*() {
    const sources = sweeps++ % 2 === 0 ? [claimDue, takeOver] : [takeOver, claimDue]
    const at = yield* now
    // A schedule that was saved may have a moment in the past.
    if (takeSaved()) floor.lower(ScanFloor.lowest)
    from = yield* floor.from(at)
    for (const source of sources) {
      for (let hasMore = true; hasMore;) {
        if (!runs.hasRoom()) return
        hasMore = yield* source(from)
      }
    }
    yield* floor.raise(at)
  })

  return { workOffDue, nextDue: Effect.suspend(() => store.nextDue(from)) }
})

const make = Effect.gen(function*() {
  const store = yield* SchedulesStore
  const runs = yield* makeRuns
  const { nextDue, workOffDue } = yield* makeWorkOff(runs)
  const { latch: wake } = yield* ScheduleWake
  const { sweepInterval } = yield* Settings
  const demand = (yield* PendingWork).of("schedules")

  const sweep = Effect.gen(function*() {
    // First, so that a schedule whose tasks failed does not fire again.
    const paused = yield* store.settle(yield* now, settledBatch)
    if (paused.length > 0) yield* Effect.logInfo(`${paused.length} schedules were paused because their tasks failed`)
    yield* workOffDue
  })

  /** Until the next moment, so that none waits for the next sweep. */
  const pause = Effect.gen(function*() {
    // The room that a batch needs opens the latch.
    if (!runs.hasRoom() || !(yield* demand.isDue)) return sweepInterval
    const due = yield* Effect.orElseSucceed(nextDue, () => undefined)
    const left = due === undefined ? Infinity : (due - (yield* now)) / 1000
    return Duration.millis(Math.min(Duration.toMillis(sweepInterval), Math.max(left, 20)))
  })

  yield* Worker.make({
    name: "the sweep of schedules",
    runOnce: sweep,
    interval: pause,
    demand,
    wake
  })
  yield* startDeletion
  return Firing.of({ runOnce: Effect.andThen(sweep, runs.drained) })
})
