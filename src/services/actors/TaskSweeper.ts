/**
 * Periodically ends overdue tasks and starts missing actors, from the rows alone, so that a lost notification cannot
 * strand a task. It ends overdue tasks of all nodes, with or without an actor.
 */
import { Cause, Context, Duration, Effect, Layer, Queue, Ref, Schedule } from "effect"
import { nextDue } from "../../domain/Deadline.ts"
import type { StoreUnavailable } from "../../domain/StoreUnavailable.ts"
import { TaskEvent, type TaskHead, type TaskId } from "../../domain/Task.ts"
import { monotonicMillis, now, plus } from "../../domain/Timestamp.ts"
import { TaskOwnership } from "../cluster/TaskOwnership.ts"
import { RemoteChanges } from "../store/RemoteChanges.ts"
import { visibilityLag } from "../store/RevocationRepository.ts"
import { TaskReads } from "../store/TaskReads.ts"
import { TaskScans } from "../store/TaskScans.ts"
import { logFault, retryForever } from "../timing/Retry.ts"
import { Settings } from "../timing/Settings.ts"
import { TaskActors } from "./TaskActors.ts"

/** Actors end their tasks first: a sweep ends tasks that have been overdue for longer than this. */
const grace = Duration.millis(-500)
const overdueBatch = 500
const startPage = 5000
/** Live rows that one sweep checks for a missing actor. */
const walkPage = 500

const revokedBatch = 500

export class TaskSweeper extends Context.Service<TaskSweeper, {
  /** The time of the last successful sweep, by `monotonicMillis`. */
  readonly lastSweep: Effect.Effect<number>
  /** Ends processing tasks whose token was revoked recently. */
  readonly endRevoked: Effect.Effect<void, StoreUnavailable>
}>()("async-task-service/services/actors/TaskSweeper") {
  static readonly layer = Layer.effect(
    TaskSweeper,
    Effect.gen(function*() {
      const reads = yield* TaskReads
      const scans = yield* TaskScans
      const actors = yield* TaskActors
      const ownership = yield* TaskOwnership
      const remote = yield* RemoteChanges
      const { acceptanceTimeout, sweepInterval } = yield* Settings

      /** A failure is logged and does not affect other tasks; the next sweep retries. Returns the number of ended tasks. */
      const end = (head: TaskHead, event: TaskEvent) =>
        actors.end(head, event).pipe(
          Effect.as(1),
          Effect.catchCauseIf((cause) => !Cause.hasInterrupts(cause), (cause) =>
            logFault("a task could not be ended")(cause).pipe(
              Effect.annotateLogs({ taskId: head.uuid }),
              Effect.as(0)
            ))
        )

      /** Ends the found tasks in batches, until a batch is not full or none of it could be ended. */
      const endBatches = (
        batch: number,
        find: Effect.Effect<ReadonlyArray<TaskHead>, StoreUnavailable>,
        eventOf: (head: TaskHead) => TaskEvent | undefined
      ) =>
        Effect.gen(function*() {
          const heads = yield* find
          const ended = yield* Effect.forEach(heads, (head) => {
            const event = eventOf(head)
            return event === undefined ? Effect.succeed(0) : end(head, event)
          }, { concurrency: 8 })
          return heads.length === batch && ended.includes(1)
        }).pipe(Effect.repeat({ while: (mayHaveMore) => mayHaveMore }))

      const endOverdue = (before: Duration.Duration) =>
        endBatches(
          overdueBatch,
          Effect.flatMap(now, (at) => scans.overdue(plus(at, before), overdueBatch)),
          (head) => nextDue(head, acceptanceTimeout)?.event
        )

      const endRevoked = (within?: Duration.Duration) =>
        endBatches(
          revokedBatch,
          scans.revoked(within, revokedBatch),
          () => TaskEvent.cases.TokenRevoked.make({})
        )

      /** Starts missing actors for one keyset page of this node's live tasks. Returns the cursor of the next page. */
      const walk = Effect.fnUntraced(function*(after: TaskId | undefined, page: number) {
        const shards = ownership.shards()
        if (shards?.length === 0) return undefined
        const heads = yield* scans.live(after, page, shards)
        yield* Effect.forEach(heads, actors.ensure, { discard: true })
        return heads.length === page ? heads.at(-1)?.uuid : undefined
      })

      const walkAll = Effect.gen(function*() {
        let cursor = yield* walk(undefined, startPage)
        while (cursor !== undefined) cursor = yield* walk(cursor, startPage)
      })

      /** Applies changes that other nodes made to this node's tasks. */
      const followOthers = Effect.gen(function*() {
        const changed = yield* Queue.takeBetween(remote.changes, 1, walkPage)
        const mine = [...new Set(changed)].filter(ownership.isMine)
        if (mine.length === 0) return
        yield* Effect.forEach(yield* retryForever(reads.heads(mine)), actors.ensure, { discard: true })
      })

      /** After shards were gained or notifications were lost, changes are unknown: checks all tasks of this node. */
      const catchUp = Effect.gen(function*() {
        yield* Effect.raceFirst(ownership.changed, remote.mayHaveGaps.await)
        yield* remote.mayHaveGaps.close
        yield* actors.release
        yield* retryForever(walkAll)
      })

      // Tasks that expired while no node was up end before any dispatch.
      yield* endOverdue(Duration.zero)
      yield* endRevoked()
      yield* walkAll
      if (ownership.shards() !== undefined) {
        yield* Effect.forkScoped(Effect.forever(followOthers))
        yield* Effect.forkScoped(Effect.forever(catchUp))
      }

      const lastSweep = yield* Ref.make(yield* monotonicMillis)
      let position: TaskId | undefined
      const sweep = Effect.gen(function*() {
        yield* endOverdue(grace)
        const sinceLast = Duration.millis((yield* monotonicMillis) - (yield* Ref.get(lastSweep)))
        yield* endRevoked(Duration.sum(visibilityLag, sinceLast))
        position = yield* walk(position, walkPage)
        yield* Ref.set(lastSweep, yield* monotonicMillis)
      }).pipe(Effect.catchCause(logFault("a sweep did not finish")))
      yield* Effect.forkScoped(Effect.repeat(sweep, Schedule.spaced(sweepInterval)))
      return TaskSweeper.of({ lastSweep: Ref.get(lastSweep), endRevoked: Effect.asVoid(endRevoked(visibilityLag)) })
    })
  )
}
