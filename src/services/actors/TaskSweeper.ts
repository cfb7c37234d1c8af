/**
 * Periodically ends overdue tasks and starts missing actors, from the rows alone, so that a lost notification cannot
 * strand a task. It ends overdue tasks of all nodes, with or without an actor.
 */
import { Cause, Context, Duration, Effect, Layer, Queue } from "effect"
import { nextDue } from "../../domain/Deadline.ts"
import type { StoreUnavailable } from "../../domain/StoreUnavailable.ts"
import { TaskEvent, type TaskHead, type TaskId } from "../../domain/Task.ts"
import { monotonicMillis, now, plus, Timestamp } from "../../domain/Timestamp.ts"
import { TaskOwnership } from "../cluster/TaskOwnership.ts"
import { PendingWork } from "../store/PendingWork.ts"
import { RemoteChanges } from "../store/RemoteChanges.ts"
import { visibilityLag } from "../store/RevocationRepository.ts"
import * as ScanFloor from "../store/ScanFloor.ts"
import { TaskReads } from "../store/TaskReads.ts"
import { TaskScans } from "../store/TaskScans.ts"
import { logFault, retryForever } from "../timing/Retry.ts"
import { Settings } from "../timing/Settings.ts"
import * as Worker from "../timing/Worker.ts"
import { watchTime } from "./Decision.ts"
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
  const scans = yield* TaskScans
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
    const heads = yield* scans.overdue(at, overdueBatch, yield* floor.from(at))
    const ended = yield* endAll(heads, (head) => nextDue(head, acceptanceTimeout)?.event())
    if (heads.length === overdueBatch) return ended.includes(true)
    // The next scan finds what could not be ended.
    if (!ended.includes(false)) yield* floor.raise(at)
    return false
  })

  const revoked = (within: Duration.Duration | undefined) =>
    Effect.gen(function*() {
      const heads = yield* scans.revoked(within, revokedBatch)
      const ended = yield* endAll(heads, () => TaskEvent.cases.TokenRevoked.make({}))
      return heads.length === revokedBatch && ended.includes(true)
    })

  return {
    overdue: Effect.repeat(overdue, { while: (mayHaveMore) => mayHaveMore, times: maxBatches - 1 }),
    revoked: (within?: Duration.Duration) => Effect.repeat(revoked(within), { while: (mayHaveMore) => mayHaveMore })
  }
})

/** Starts the actors that tasks of this node lack. */
const makeWalk = Effect.gen(function*() {
  const scans = yield* TaskScans
  const actors = yield* TaskActors
  const ownership = yield* TaskOwnership
  const { sweepInterval } = yield* Settings

  /** Starts missing actors for a page of tasks of this node. Returns the cursor of the next page. */
  const startMissing = Effect.fnUntraced(
    function*(find: typeof scans.running, after: TaskId | undefined, page: number) {
      const shards = ownership.shards()
      if (shards?.length === 0) return undefined
      const heads = yield* find(after, page, shards)
      yield* Effect.forEach(heads, actors.ensure, { discard: true })
      return heads.length === page ? heads.at(-1)?.uuid : undefined
    }
  )

  const startAllMissing = Effect.fnUntraced(function*(find: typeof scans.running) {
    let cursor = yield* startMissing(find, undefined, startPage)
    while (cursor !== undefined) cursor = yield* startMissing(find, cursor, startPage)
  })

  /** Starts missing actors for deadlines after `from`, until `to`. Returns `to`. */
  const watchDeadlines = (from: Timestamp, to: Timestamp) =>
    Effect.as(startAllMissing((...page) => scans.dueWithin(from, to, ...page)), to)

  const walkAll = Effect.andThen(
    startAllMissing(scans.running),
    Effect.flatMap(now, (at) => watchDeadlines(Timestamp.make(0), plus(at, watchTime(sweepInterval))))
  )

  return {
    watchDeadlines,
    walkAll,
    walkPage: (after: TaskId | undefined) => startMissing(scans.running, after, pageSize)
  }
})

/** Follows what other nodes do to this node's tasks. */
const makeFollowing = Effect.fnUntraced(function*(walkAll: Effect.Success<typeof makeWalk>["walkAll"]) {
  const reads = yield* TaskReads
  const actors = yield* TaskActors
  const ownership = yield* TaskOwnership
  const { changes, mayHaveGaps } = yield* RemoteChanges

  /** Applies changes that other nodes made to this node's tasks. */
  const followOthers = Effect.gen(function*() {
    const changed = yield* Queue.takeBetween(changes, 1, pageSize)
    const mine = [...new Set(changed)].filter(ownership.isMine)
    if (mine.length === 0) return
    yield* Effect.forEach(yield* retryForever(reads.heads(mine)), actors.ensure, { discard: true })
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
    if (position !== undefined || begun >= walksFrom) {
      position = yield* step(walkPage(position))
      walksFrom = begun + Math.min(maxWalkPause, walkShare * ((yield* monotonicMillis) - begun))
    }
    yield* step(actors.handOverSilent)
    sweptAt = progressedAt
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
