/**
 * Finds what is due or without an actor, at start and for ever, so that no lost wake-up can strand a task: the rows
 * alone decide. It ends overdue tasks itself, whosever they are and whether or not an actor exists.
 */
import { Cause, Context, Duration, Effect, Layer, Queue, Ref, Schedule } from "effect"
import { nextDue } from "../../domain/Deadline.ts"
import { TaskEvent, type TaskHead, type TaskId } from "../../domain/Task.ts"
import { monotonicMillis, now, plus } from "../../domain/Timestamp.ts"
import { TaskOwnership } from "../cluster/TaskOwnership.ts"
import { visibilityLag } from "../store/RevocationRepository.ts"
import { TaskNotifications } from "../store/TaskNotifications.ts"
import { TaskRepository } from "../store/TaskRepository.ts"
import { logFault, retryForever } from "../timing/Retry.ts"
import { Settings } from "../timing/Settings.ts"
import { TaskActors } from "./TaskActors.ts"

/** Actors come first: a sweep takes what is overdue by more than this. */
const grace = Duration.millis(-500)
const overdueBatch = 500
const startPage = 5000
/** Live rows looked at in one pass of the endless walk over them. */
const walkPage = 500

const revokedBatch = 500

export class TaskSweeper extends Context.Service<TaskSweeper, {
  /** When the last sweep ended well, by `monotonicMillis`: a node without sweeps makes no progress. */
  readonly lastSweep: Effect.Effect<number>
  /** Ends processing tasks whose token has been revoked lately (SPEC "Authentication"). */
  readonly endRevoked: Effect.Effect<void>
}>()("async-task-service/services/actors/TaskSweeper") {
  static readonly layer = Layer.effect(
    TaskSweeper,
    Effect.gen(function*() {
      const repository = yield* TaskRepository
      const actors = yield* TaskActors
      const ownership = yield* TaskOwnership
      const notifications = yield* TaskNotifications
      const { acceptanceTimeout, sweepInterval } = yield* Settings

      /** A task that cannot be ended is left for the next sweep, and keeps it from none of the others. */
      const end = (head: TaskHead, event: TaskEvent) =>
        actors.end(head, event).pipe(
          Effect.as(1),
          Effect.catchCauseIf((cause) => !Cause.hasInterrupts(cause), (cause) =>
            logFault("a task could not be ended")(cause).pipe(
              Effect.annotateLogs({ taskId: head.uuid }),
              Effect.as(0)
            ))
        )

      /** Ends what it finds, batch after batch for as long as that gets anywhere. */
      const endBatches = (
        batch: number,
        find: Effect.Effect<ReadonlyArray<TaskHead>>,
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
          Effect.flatMap(now, (at) => repository.overdue(plus(at, before), overdueBatch)),
          (head) => nextDue(head, acceptanceTimeout)?.event
        )

      const endRevoked = (within?: Duration.Duration) =>
        endBatches(
          revokedBatch,
          repository.revoked(within, revokedBatch),
          () => TaskEvent.cases.TokenRevoked.make({})
        )

      /** Starts missing actors among one page of this node's live tasks; returns where the next page begins. */
      const walk = Effect.fnUntraced(function*(after: TaskId | undefined, page: number) {
        const shards = ownership.shards()
        if (shards?.length === 0) return undefined
        const heads = yield* repository.live(after, page, shards)
        yield* Effect.forEach(heads, actors.ensure, { discard: true })
        return heads.length === page ? heads.at(-1)?.uuid : undefined
      })

      const walkAll = Effect.gen(function*() {
        let cursor = yield* walk(undefined, startPage)
        while (cursor !== undefined) cursor = yield* walk(cursor, startPage)
      })

      /** Where other nodes have brought tasks of this one. */
      const followOthers = Effect.gen(function*() {
        const heard = yield* Queue.takeBetween(notifications.heard, 1, walkPage)
        const mine = [...new Set(heard)].filter(ownership.isMine)
        if (mine.length === 0) return
        yield* Effect.forEach(yield* retryForever(repository.heads(mine)), actors.ensure, { discard: true })
      })

      /** A node that is gone, or could not be heard, may have told of nothing that it did. */
      const catchUp = Effect.gen(function*() {
        yield* Effect.raceFirst(ownership.changed, notifications.missed.await)
        yield* notifications.missed.close
        yield* actors.release
        yield* retryForever(walkAll)
      })

      // What ran out while no node was up ends before anything of it is handed over again.
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
