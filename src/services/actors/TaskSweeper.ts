/**
 * Periodically ends overdue tasks and starts missing actors, from the rows alone, so that a lost notification cannot
 * strand a task. It ends overdue tasks of all nodes, with or without an actor.
 */
import { Cause, Context, Duration, Effect, Layer, Queue } from "effect"
import { nextDue } from "../../domain/Deadline.ts"
import type { StoreUnavailable } from "../../domain/StoreUnavailable.ts"
import { isRunning, TaskEvent, type TaskHead, type TaskId } from "../../domain/Task.ts"
import { monotonicMillis, now, plus, Timestamp } from "../../domain/Timestamp.ts"
import { TaskOwnership } from "../cluster/TaskOwnership.ts"
import { CoreClient } from "../core/CoreClient.ts"
import { probeInterval } from "../core/CoreReach.ts"
import { CoreBusy } from "../queue/CoreBusy.ts"
import { Settings } from "../settings/Settings.ts"
import { Changes } from "../signals/Changes.ts"
import { PendingWork } from "../store/PendingWork.ts"
import { RunQueue } from "../store/queue/RunQueue.ts"
import { visibilityLag } from "../store/revocations/RevocationRepository.ts"
import { TaskStore } from "../store/tasks/TaskStore.ts"
import * as Metrics from "../telemetry/Metrics.ts"
import { logFault, retryForever } from "../timing/Retry.ts"
import * as ScanFloor from "../timing/ScanFloor.ts"
import * as Worker from "../timing/Worker.ts"
import { isQuiet, watchTime } from "./Decision.ts"
import { TaskActors } from "./TaskActors.ts"

/** Actors end their tasks first: a sweep ends tasks that have been overdue for longer than this. */
const grace = Duration.millis(500)
const overdueBatch = 500
/** Batches of one sweep, so that a backlog does not hold up the rest of it. */
const maxBatches = 10
const startPage = 5000
/** Deadlines are watched at least this long before they are due, so that a slow sweep makes none late. */
const watchSlack = Duration.seconds(30)
/** Running tasks that one sweep checks for a missing actor. */
const pageSize = 500

/**
 * A walk pauses for this many times the duration of its last page, and at most for the milliseconds: the entries of ended tasks that a
 * backup keeps make it slow.
 */
const walkShare = 200
const maxWalkPause = 5000

/** Milliseconds. A sweep that takes longer had no database, or no time: meanwhile no event could be recorded. */
const longestSweep = 5000

const revokedBatch = 500

export class TaskSweeper extends Context.Service<TaskSweeper, {
  /** When the sweep last made progress, by `monotonicMillis`: over a narrow link each of its statements may take seconds. */
  readonly lastProgress: Effect.Effect<number>
  /** Ends processing tasks whose token was revoked recently. */
  readonly endRevoked: Effect.Effect<void, StoreUnavailable>
}>()("async-task-service/services/actors/TaskSweeper") {
  static readonly layer = Layer.effect(TaskSweeper, Effect.suspend(() => make))
}

/** Ends tasks that the rows show to be overdue or revoked, whatever node owns them. */
const makeEnds = Effect.gen(function*() {
  const store = yield* TaskStore
  const actors = yield* TaskActors
  const { acceptanceTimeout } = yield* Settings
  const floor = ScanFloor.make()

  /** A failure is logged and does not affect other tasks; the next sweep retries. Returns whether the task was ended. */
  const end = (head: TaskHead, event: TaskEvent | undefined) =>
    event === undefined ? Effect.succeed(false) : actors.end(head, event).pipe(
      Effect.as(true),
      Effect.catchCauseIf(
        (cause) => !Cause.hasInterrupts(cause),
        (cause) =>
          logFault("a task could not be ended")(cause).pipe(
            Effect.annotateLogs({ taskId: head.uuid }),
            Effect.as(false)
          )
      )
    )

  const endAll = (heads: ReadonlyArray<TaskHead>, eventOf: (head: TaskHead) => TaskEvent | undefined) =>
    Effect.forEach(heads, (head) => end(head, eventOf(head)), { concurrency: 8 })

  /** A batch that is not full, or of which none could be ended, is the last one. */
  const overdue = Effect.gen(function*() {
    const at = plus(yield* now, Duration.negate(grace))
    const heads = yield* store.overdue(at, overdueBatch, yield* floor.from(at))
    const ended = yield* endAll(heads, (head) => nextDue(head, acceptanceTimeout)?.event())
    if (heads.length === overdueBatch) return ended.includes(true)
    // The next scan finds what could not be ended.
    if (!ended.includes(false)) yield* floor.raise(at)
    return false
  })

  const revoked = (within: Duration.Duration | undefined) =>
    Effect.gen(function*() {
      const heads = yield* store.revoked(within, revokedBatch)
      const ended = yield* endAll(heads, () => TaskEvent.cases.TokenRevoked.make({}))
      return heads.length === revokedBatch && ended.includes(true)
    })

  return {
    overdue: Effect.repeat(overdue, { while: (mayHaveMore) => mayHaveMore, times: maxBatches - 1 }),
    revoked: (within?: Duration.Duration) => Effect.repeat(revoked(within), { while: (mayHaveMore) => mayHaveMore })
  }
})

/** Visits running tasks of this node: starts the actors that they lack, and dispatches silent runs again. */
const makeWalk = Effect.gen(function*() {
  const store = yield* TaskStore
  const core = yield* CoreClient
  const actors = yield* TaskActors
  const ownership = yield* TaskOwnership
  const queue = yield* RunQueue
  const { isLimited } = yield* CoreBusy
  const { sweepInterval } = yield* Settings
  const scope = yield* Effect.scope

  /** Runs that began before there was a limit count too. */
  const countMissing = (heads: ReadonlyArray<TaskHead>) =>
    queue.count(heads.flatMap(({ room, status, uuid }) => room === null && isRunning(status) ? [uuid] : []))

  /** Starts missing actors for a page of tasks of this node. */
  const startMissing = Effect.fnUntraced(
    function*(find: typeof store.running, after: TaskId | undefined, page: number) {
      const shards = ownership.shards()
      const heads = shards?.length === 0 ? [] : yield* find(after, page, shards)
      yield* Effect.forEach(heads, actors.ensure, { discard: true })
      if (isLimited) yield* countMissing(heads)
      return { heads, next: heads.length === page ? heads.at(-1)?.uuid : undefined }
    }
  )

  const startAllMissing = Effect.fnUntraced(function*(find: typeof store.running) {
    let { next } = yield* startMissing(find, undefined, startPage)
    while (next !== undefined) ({ next } = yield* startMissing(find, next, startPage))
  })

  /** Starts missing actors for deadlines after `from`, until `to`. Returns `to`. */
  const watchDeadlines = (from: Timestamp, to: Timestamp) =>
    Effect.as(startAllMissing((...page) => store.dueWithin(from, to, ...page)), to)

  const walkAll = Effect.andThen(
    startAllMissing(store.running),
    Effect.flatMap(now, (at) => watchDeadlines(Timestamp.make(0), plus(at, watchTime(sweepInterval))))
  )

  const redispatch = Effect.fnUntraced(function*(silent: ReadonlyArray<TaskHead>) {
    const claimed = yield* store.claimSilent(silent)
    if (claimed.length === 0) return
    yield* Effect.forEach(claimed, actors.redispatch, { discard: true })
    Metrics.redispatches.add(claimed.length)
    yield* Effect.annotateLogs(Effect.logWarning("silent runs are dispatched to the core again"), {
      runs: claimed.length
    })
  })

  /** Returns the cursor of the next page. */
  const walkPage = Effect.fnUntraced(function*(after: TaskId | undefined) {
    // Before the rows are read: an event that comes later is no silence.
    const at = yield* now
    const { heads, next } = yield* startMissing(store.running, after, pageSize)
    // Nobody waits for the connection.
    if (heads.some((head) => isQuiet(head, probeInterval, at))) {
      yield* Effect.forkIn(core.unreachable(probeInterval), scope)
    }
    const silent = yield* actors.silent(heads, at)
    if (silent.length > 0) yield* redispatch(silent)
    return next
  })

  return { watchDeadlines, walkAll, walkPage }
})

/** Follows what other nodes do to this node's tasks. */
const makeFollowing = Effect.fnUntraced(function*(walkAll: Effect.Success<typeof makeWalk>["walkAll"]) {
  const store = yield* TaskStore
  const actors = yield* TaskActors
  const ownership = yield* TaskOwnership
  const { mayHaveGaps, remote } = yield* Changes

  /** Applies changes that other nodes made to this node's tasks. */
  const followOthers = Effect.gen(function*() {
    const changed = yield* Queue.takeBetween(remote, 1, pageSize)
    const mine = [...new Set(changed)].filter(ownership.isMine)
    if (mine.length === 0) return
    yield* Effect.forEach(yield* retryForever(store.heads(mine)), actors.ensure, { discard: true })
  })

  yield* Effect.forkScoped(Effect.forever(followOthers))
  yield* Effect.forkScoped(Effect.forever(
    Effect.andThen(ownership.changed, Effect.andThen(actors.distrustRuns, mayHaveGaps.open))
  ))
  // After shards were gained or notifications were lost, changes are unknown: check all tasks of this node.
  yield* Worker.make({
    name: "the search for changed tasks",
    runOnce: Effect.andThen(actors.distrustRuns, Effect.andThen(actors.release, walkAll)),
    interval: Duration.infinity,
    wake: mayHaveGaps,
    isDelayed: true
  })
})

const make = Effect.gen(function*() {
  const actors = yield* TaskActors
  const ownership = yield* TaskOwnership
  const { sweepInterval } = yield* Settings
  const ends = yield* makeEnds
  const { walkAll, walkPage, watchDeadlines } = yield* makeWalk

  yield* ends.revoked()
  yield* actors.distrustRuns
  let watchedUntil = yield* walkAll
  if (ownership.shards() !== undefined) yield* makeFollowing(walkAll)

  let sweptAt = yield* monotonicMillis
  let progressedAt = sweptAt
  const step = <A, E>(part: Effect.Effect<A, E>) =>
    Effect.tap(part, () =>
      Effect.map(monotonicMillis, (at) => {
        progressedAt = at
      }))
  let position: TaskId | undefined
  let walksFrom = -Infinity
  const sweep = Effect.gen(function*() {
    yield* step(ends.overdue)
    yield* step(ends.revoked(Duration.sum(visibilityLag, Duration.millis((yield* monotonicMillis) - sweptAt))))
    const at = yield* now
    // Another process without a cluster may have left a task since its deadline was watched.
    yield* step(watchDeadlines(at, plus(at, Duration.times(sweepInterval, 2))))
    const watchEnd = plus(at, watchTime(sweepInterval))
    // After the clock was set back, tasks with deadlines before `watchedUntil` may have no actor.
    watchedUntil = Timestamp.make(Math.min(watchedUntil, watchEnd))
    if (watchedUntil < plus(at, watchSlack)) watchedUntil = yield* watchDeadlines(watchedUntil, watchEnd)
    const begun = yield* monotonicMillis
    if (begun - sweptAt > Duration.toMillis(sweepInterval) + longestSweep) yield* actors.endOutage
    if (position !== undefined || begun >= walksFrom) {
      position = yield* step(walkPage(position))
      walksFrom = begun + Math.min(maxWalkPause, walkShare * ((yield* monotonicMillis) - begun))
    }
    sweptAt = progressedAt = yield* monotonicMillis
  })
  const demand = (yield* PendingWork).of("tasks")
  yield* Worker.make({
    name: "the task sweep",
    runOnce: sweep,
    interval: sweepInterval,
    demand: {
      ...demand,
      isDue: Effect.gen(function*() {
        if (yield* demand.isDue) return true
        sweptAt = progressedAt = yield* monotonicMillis
        return false
      })
    }
  })

  return TaskSweeper.of({
    lastProgress: Effect.sync(() => progressedAt),
    endRevoked: Effect.asVoid(ends.revoked(visibilityLag))
  })
})
